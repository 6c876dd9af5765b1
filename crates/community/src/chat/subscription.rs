//! Who sees whose presence: the state of one contact on one side, and what the four kinds of
//! presence that ask, grant, end and take back make of it (RFC 6121 §3 and appendix A). Pure.

/// How one side stands to one contact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// It stands in the roster.
    pub listed: bool,
    /// We see the contact's presence.
    pub to: bool,
    /// The contact sees ours.
    pub from: bool,
    /// We have asked to see the contact's.
    pub asks: bool,
    /// The contact has asked to see ours.
    pub asked: bool,
    /// We said yes before being asked.
    pub approved: bool,
}

/// The kinds of presence that change a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Asks to see the other's presence.
    Subscribe,
    /// Shows the other one's own.
    Subscribed,
    /// Wants to see the other's no longer.
    Unsubscribe,
    /// Shows the other one's own no longer, or refuses to.
    Unsubscribed,
}

/// What comes of one presence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The state after it.
    pub state: State,
    /// Whether it goes on: to the contact when we sent it, to our sessions when it came in.
    pub passes: bool,
    /// What is answered to the contact in our name.
    pub answers: Option<Kind>,
}

impl State {
    /// Bits as they are kept in a row.
    pub fn bits(self) -> i64 {
        let Self { listed, to, from, asks, asked, approved } = self;
        let bits = [listed, to, from, asks, asked, approved];
        bits.iter().rev().fold(0, |sum, bit| sum * 2 + i64::from(*bit))
    }

    /// From the bits of a row.
    pub fn from_bits(bits: i64) -> Self {
        let bit = |at: u32| bits >> at & 1 == 1;
        Self {
            listed: bit(0),
            to: bit(1),
            from: bit(2),
            asks: bit(3),
            asked: bit(4),
            approved: bit(5),
        }
    }

    /// As the roster names it: `none`, `to`, `from`, `both`.
    pub fn subscription(self) -> &'static str {
        match (self.to, self.from) {
            (false, false) => "none",
            (true, false) => "to",
            (false, true) => "from",
            (true, true) => "both",
        }
    }

    /// Whether there is nothing to be kept of it.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// Whether the roster shows the two states alike.
    pub fn looks_like(self, other: Self) -> bool {
        Self { asked: false, ..self } == Self { asked: false, ..other }
    }
}

/// We send `kind` to the contact (appendix A.2).
pub fn outbound(state: State, kind: Kind) -> Step {
    let mut next = state;
    let passes = match kind {
        Kind::Subscribe => {
            next.listed = true;
            next.asks |= !state.to;
            true
        }
        Kind::Unsubscribe => {
            next.asks = false;
            next.to = false;
            true
        }
        Kind::Subscribed => {
            if state.asked {
                next.asked = false;
                next.from = true;
                next.approved = false;
                next.listed = true;
            } else if !state.from {
                next.approved = true;
                next.listed = true;
            }
            state.asked
        }
        Kind::Unsubscribed => {
            next.asked = false;
            next.from = false;
            next.approved = false;
            state.asked || state.from
        }
    };
    Step { state: next, passes, answers: None }
}

/// The contact sends us `kind` (appendix A.3).
pub fn inbound(state: State, kind: Kind) -> Step {
    let mut next = state;
    let mut answers = None;
    let passes = match kind {
        Kind::Subscribe if state.from => {
            answers = Some(Kind::Subscribed);
            false
        }
        Kind::Subscribe if state.approved => {
            next.approved = false;
            next.asked = false;
            next.from = true;
            answers = Some(Kind::Subscribed);
            false
        }
        Kind::Subscribe => {
            next.asked = true;
            !state.asked
        }
        Kind::Unsubscribe => {
            next.asked = false;
            next.from = false;
            state.asked || state.from
        }
        Kind::Subscribed => {
            next.to |= state.asks;
            next.asks = false;
            state.asks
        }
        Kind::Unsubscribed => {
            next.asks = false;
            next.to = false;
            state.asks || state.to
        }
    };
    Step { state: next, passes, answers }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KINDS: [Kind; 4] =
        [Kind::Subscribe, Kind::Subscribed, Kind::Unsubscribe, Kind::Unsubscribed];

    /// `one` sends `kind` to `other`, and what is answered comes back.
    fn exchange(one: &mut State, other: &mut State, kind: Kind) {
        let out = outbound(*one, kind);
        *one = out.state;
        if !out.passes {
            return;
        }
        let came = inbound(*other, kind);
        *other = came.state;
        if let Some(answer) = came.answers {
            *one = inbound(*one, answer).state;
        }
    }

    fn state(text: &str) -> State {
        let has = |word: &str| text.split(' ').any(|part| part == word);
        State {
            listed: true,
            to: has("to") || has("both"),
            from: has("from") || has("both"),
            asks: has("out"),
            asked: has("in"),
            approved: has("approved"),
        }
    }

    proptest! {
        #[test]
        fn both_sides_end_mirrored_whatever_was_sent(
            steps in prop::collection::vec((any::<bool>(), 0..4_usize), 0..40),
        ) {
            let (mut alice, mut bob) = (State::default(), State::default());
            for (from_alice, kind) in steps {
                let (one, other) =
                    if from_alice { (&mut alice, &mut bob) } else { (&mut bob, &mut alice) };
                exchange(one, other, KINDS[kind]);
                prop_assert_eq!((alice.to, alice.asks), (bob.from, bob.asked));
                prop_assert_eq!((bob.to, bob.asks), (alice.from, alice.asked));
                for side in [alice, bob] {
                    prop_assert!(!(side.to && side.asks), "asks for what it has: {:?}", side);
                    prop_assert!(!(side.approved && (side.from || side.asked)), "{:?}", side);
                }
            }
        }

        #[test]
        fn states_survive_their_row(bits in 0..64_i64) {
            prop_assert_eq!(State::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn what_is_sent_changes_the_state_as_appendix_a_2_says() {
        use Kind::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
        for (before, kind, passes, after) in [
            ("none", Subscribe, true, "none out"),
            ("none in", Subscribe, true, "none out in"),
            ("to", Subscribe, true, "to"),
            ("from", Subscribe, true, "from out"),
            ("both", Subscribe, true, "both"),
            ("none out", Unsubscribe, true, "none"),
            ("to in", Unsubscribe, true, "none in"),
            ("both", Unsubscribe, true, "from"),
            ("none", Subscribed, false, "none approved"),
            ("none in", Subscribed, true, "from"),
            ("to in", Subscribed, true, "both"),
            ("none out in", Subscribed, true, "from out"),
            ("from", Subscribed, false, "from"),
            ("to", Subscribed, false, "to approved"),
            ("none approved", Unsubscribed, false, "none"),
            ("none in", Unsubscribed, true, "none"),
            ("both", Unsubscribed, true, "to"),
            ("to", Unsubscribed, false, "to"),
        ] {
            let step = outbound(state(before), kind);
            assert_eq!((step.state, step.passes), (state(after), passes), "{before} {kind:?}");
        }
    }

    #[test]
    fn what_comes_changes_the_state_as_appendix_a_3_says() {
        use Kind::{Subscribe, Subscribed, Unsubscribe, Unsubscribed};
        for (before, kind, passes, after, answers) in [
            ("none", Subscribe, true, "none in", None),
            ("none in", Subscribe, false, "none in", None),
            ("to", Subscribe, true, "to in", None),
            ("from", Subscribe, false, "from", Some(Subscribed)),
            ("both", Subscribe, false, "both", Some(Subscribed)),
            ("none approved", Subscribe, false, "from", Some(Subscribed)),
            ("none", Unsubscribe, false, "none", None),
            ("from out", Unsubscribe, true, "none out", None),
            ("both", Unsubscribe, true, "to", None),
            ("none out", Subscribed, true, "to", None),
            ("from out", Subscribed, true, "both", None),
            ("none", Subscribed, false, "none", None),
            ("none out in", Unsubscribed, true, "none in", None),
            ("both", Unsubscribed, true, "from", None),
            ("from", Unsubscribed, false, "from", None),
        ] {
            let step = inbound(state(before), kind);
            let got = (step.state, step.passes, step.answers);
            assert_eq!(got, (state(after), passes, answers), "{before} {kind:?}");
        }
    }
}
