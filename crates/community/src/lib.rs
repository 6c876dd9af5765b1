//! The nouns and the rules of a community.
