//! The injected random source.

use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::{OsRng, StdRng};
use rand::{Rng, RngCore, SeedableRng, TryRngCore};

/// Where randomness comes from: the operating system, or a seed that repeats.
#[derive(Clone)]
pub struct Random(Source);

#[derive(Clone)]
enum Source {
    System,
    Seeded(Arc<Mutex<StdRng>>),
}

impl Random {
    /// Randomness fit for secrets and keys.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// Randomness that repeats: for tests and simulations only.
    pub fn seeded(seed: u64) -> Self {
        Self(Source::Seeded(Arc::new(Mutex::new(StdRng::seed_from_u64(seed)))))
    }

    /// Fills `bytes`. The system's source uses the operating system's generator.
    pub fn fill(&self, bytes: &mut [u8]) {
        match &self.0 {
            // The kernel's generator fails only where no secret could be made at all; going on
            // with predictable secrets would be worse than stopping.
            Source::System => OsRng.try_fill_bytes(bytes).expect("the system's random source"),
            Source::Seeded(rng) => rng.lock().fill_bytes(bytes),
        }
    }

    /// Sixteen random bits; not for secrets.
    pub fn u16(&self) -> u16 {
        match &self.0 {
            Source::System => rand::rng().random(),
            Source::Seeded(rng) => rng.lock().random(),
        }
    }

    /// A number from 0 up to, not including, `below` (0 when `below` is 0); not for secrets.
    pub fn below(&self, below: u64) -> u64 {
        if below == 0 {
            return 0;
        }
        match &self.0 {
            Source::System => rand::rng().random_range(0..below),
            Source::Seeded(rng) => rng.lock().random_range(0..below),
        }
    }

    /// A secret of `bytes` random bytes, as unpadded URL-safe text that needs no escaping.
    pub fn token(&self, bytes: usize) -> String {
        const ALPHABET: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut raw = vec![0; bytes.div_ceil(3) * 4];
        self.fill(&mut raw);
        raw.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 63)])).collect()
    }
}
