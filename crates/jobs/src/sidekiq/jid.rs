//! The names of jobs in Redis: 24 hexadecimal digits.

use weir_base::Id;

/// What the names of our own jobs begin with; the 16 digits of the id follow.
const OWN: &str = "77656972";

/// The name of job `id`, the same each time.
pub(crate) fn of(id: Id) -> String {
    format!("{OWN}{:016x}", id.0)
}

/// The id of the job `jid`: of our own the one it was made from, of others a number made from the
/// name, the same each time.
pub(crate) fn id(jid: &str) -> Id {
    let own = jid.strip_prefix(OWN).filter(|rest| rest.len() == 16);
    if let Some(number) = own.and_then(|rest| i64::from_str_radix(rest, 16).ok()) {
        return Id(number);
    }
    let digits = jid.get(..16).and_then(|head| u64::from_str_radix(head, 16).ok());
    let number = digits.unwrap_or_else(|| {
        // FNV-1a, for names that are not what Sidekiq makes.
        jid.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    });
    Id((number >> 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_names_tell_their_id_and_others_a_steady_number() {
        for number in [0, 1, 113_482_910_221_926_400, i64::MAX] {
            let jid = of(Id(number));
            assert_eq!((jid.len(), id(&jid)), (24, Id(number)));
        }
        let foreign = "b4a577edbccf1d805744efa9";
        assert_eq!(id(foreign), id(foreign));
        assert!(id(foreign).0 > 0);
        assert_ne!(id("not hexadecimal"), id("not hexadecimak"));
        assert!(id("ж").0 >= 0 && id("").0 >= 0);
    }
}
