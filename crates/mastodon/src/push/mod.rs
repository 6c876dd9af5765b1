//! Web Push (RFC 8030): telling people's devices.

mod encrypt;
mod send;
pub(crate) mod subscription;
mod vapid;

pub use encrypt::{DraftMessage, EncryptError, Keys, PLAINTEXT_BYTES_MAX, aes128gcm, aesgcm};
pub use send::register;
pub use vapid::{Vapid, VapidError};
