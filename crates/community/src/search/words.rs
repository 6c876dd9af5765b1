//! A text as words: composed, in lower case, without accents, without punctuation. Both databases
//! get these words, so that they find the same.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;
use unicode_segmentation::UnicodeSegmentation;

/// Characters of a word that count.
const WORD_CHARACTERS_MAX: usize = 40;

/// The first `most` words of `text`. Scripts without spaces between words (Chinese, Japanese) give
/// a word for each sign, so that phrases of them are found.
pub(super) fn words(text: &str, most: usize) -> Vec<String> {
    let folded: String = text
        .nfkd()
        .filter(|c| !matches!(c, '\u{300}'..='\u{36F}'))
        .nfc()
        .flat_map(char::to_lowercase)
        .collect();
    let is_part = |c: char| c.is_alphanumeric() || is_combining_mark(c);
    folded
        .unicode_words()
        .flat_map(|word| word.split(|c| !is_part(c)))
        .filter(|word| !word.is_empty())
        .take(most)
        .map(|word| word.chars().take(WORD_CHARACTERS_MAX).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> String {
        words(text, 100).join(" ")
    }

    #[test]
    fn accents_case_and_punctuation_do_not_count() {
        assert_eq!(joined("Crème BRÛLÉE, don't_go! #Ünï"), "creme brulee don t go uni");
        assert_eq!(joined("ﬁne ＷＩＤＥ"), "fine wide");
        assert_eq!(joined("東京 タワー"), "東 京 タワー");
        assert_eq!(joined("한국어"), "한국어");
        assert_eq!(joined("'; DROP TABLE -- \" * ( NEAR/2"), "drop table near 2");
    }

    #[test]
    fn words_hold_nothing_that_a_database_could_take_for_syntax() {
        proptest::proptest!(|(text in "\\PC{0,60}")| {
            for word in words(&text, 50) {
                proptest::prop_assert!(!word.is_empty() && word.chars().count() <= 40);
                let harmless = |c: char| c.is_alphanumeric() || is_combining_mark(c);
                proptest::prop_assert!(word.chars().all(harmless), "{word:?}");
            }
        });
    }
}
