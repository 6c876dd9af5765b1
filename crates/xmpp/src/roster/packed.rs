//! A roster in few bytes, for those who may come back soon: one piece of memory, in which the
//! domain of the people here is written nowhere.

use weir_community::chat::contacts::{Contact, Roster};
use weir_community::chat::subscription::State;

/// Beside the bits of a state: the address is one of this domain, which is left out.
const IS_OF_HERE: u8 = 0x80;

/// A roster, but for the requests of those who ask.
pub(super) struct Packed(Box<[u8]>);

impl Packed {
    /// `roster` of somebody of `domain`; none where it does not fit.
    pub(super) fn of(roster: &Roster, domain: &str) -> Option<Self> {
        let mut out = Vec::new();
        put(&mut out, &roster.version)?;
        for one in &roster.contacts {
            let local = one.jid.strip_suffix(domain).and_then(|local| local.strip_suffix('@'));
            let state =
                u8::try_from(one.state.bits()).ok().filter(|bits| bits & IS_OF_HERE == 0)?;
            out.push(if local.is_some() { state | IS_OF_HERE } else { state });
            put(&mut out, local.unwrap_or(&one.jid))?;
            put(&mut out, &one.name)?;
            out.push(u8::try_from(one.groups.len()).ok()?);
            one.groups.iter().try_for_each(|group| put(&mut out, group))?;
        }
        Some(Self(out.into()))
    }

    /// The roster again.
    pub(super) fn roster(&self, domain: &str) -> Option<Roster> {
        let rest = &mut &*self.0;
        let version = text(rest)?;
        let mut contacts = Vec::new();
        while let Some(bits) = byte(rest) {
            let mut jid = text(rest)?;
            if bits & IS_OF_HERE != 0 {
                jid = format!("{jid}@{domain}");
            }
            let name = text(rest)?;
            let groups = (0..byte(rest)?).map(|_| text(rest)).collect::<Option<_>>()?;
            let state = State::from_bits(i64::from(bits & !IS_OF_HERE));
            contacts.push(Contact { jid, name, groups, state, request: String::new() });
        }
        Some(Roster { version, contacts })
    }

    /// The version of the roster.
    pub(super) fn version(&self) -> Option<String> {
        text(&mut &*self.0)
    }

    /// What it takes, in bytes.
    pub(super) fn size_bytes(&self) -> usize {
        self.0.len()
    }
}

/// The length in seven bits a byte, the lowest first, then the text.
fn put(out: &mut Vec<u8>, text: &str) -> Option<()> {
    let mut length = u16::try_from(text.len()).ok()?;
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(text.as_bytes());
    Some(())
}

fn text(rest: &mut &[u8]) -> Option<String> {
    let (mut length, mut shift) = (0, 0);
    loop {
        let next = byte(rest)?;
        length |= usize::from(next & 0x7f) << shift;
        if next & 0x80 == 0 {
            break;
        }
        shift += 7;
        if shift > 14 {
            return None;
        }
    }
    let (text, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    String::from_utf8(text.to_vec()).ok()
}

fn byte(rest: &mut &[u8]) -> Option<u8> {
    let (first, behind) = rest.split_first()?;
    *rest = behind;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contact(jid: String, name: &str, groups: &[&str], state: State) -> Contact {
        let groups = groups.iter().map(|group| (*group).to_owned()).collect();
        Contact { jid, name: name.into(), groups, state, request: String::new() }
    }

    #[test]
    fn a_roster_comes_back_as_it_was() {
        let both = State { listed: true, to: true, from: true, ..State::default() };
        let all = State::from_bits(63);
        let contacts = vec![
            contact("bob@weir.test".into(), "", &[], both),
            contact("carol@other.test".into(), "Carol \u{1}", &["Friends", ""], all),
            contact("weir.test".into(), &"n".repeat(1_023), &["g"; 64], State::default()),
            contact("x@sub.weir.test".into(), &"n".repeat(127), &[], both),
        ];
        let roster = Roster { version: "17".into(), contacts };
        let packed = Packed::of(&roster, "weir.test").unwrap();
        assert_eq!(packed.version().as_deref(), Some("17"));
        assert_eq!(packed.roster("weir.test").unwrap(), roster);
    }

    #[test]
    fn eighteen_friends_take_less_than_three_hundred_bytes() {
        let both = State { listed: true, to: true, from: true, ..State::default() };
        let friend = |at| contact(format!("person{at:03}@example.social"), "", &[], both);
        let roster = Roster { version: "1234".into(), contacts: (0..18).map(friend).collect() };
        let size_bytes = Packed::of(&roster, "example.social").unwrap().size_bytes();
        assert!(size_bytes < 300, "{size_bytes}");
    }

    #[test]
    fn what_does_not_fit_is_not_packed() {
        let long = contact("n".repeat(70_000), "", &[], State::default());
        let roster = Roster { version: "1".into(), contacts: vec![long] };
        assert!(Packed::of(&roster, "weir.test").is_none());
    }
}
