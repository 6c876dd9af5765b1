//! What the configuration means for each part.

use weir_community::instance::Registrations;
use weir_community::users::Door;

use crate::config::{Checked, RegistrationMode, Switch};

/// Who may sign up, where staff has not set it.
pub fn registrations(checked: &Checked) -> Registrations {
    match checked.config.registrations.mode {
        RegistrationMode::Open => Registrations::Open,
        RegistrationMode::Approval => Registrations::Approval,
        RegistrationMode::Invite => Registrations::Invite,
        RegistrationMode::Closed => Registrations::Closed,
    }
}

/// Whether new people prove their mail address.
fn confirm_email(checked: &Checked) -> bool {
    let has_mail = !checked.config.mail.smtp_url.expose().is_empty();
    match checked.config.registrations.confirm_email {
        Switch::Auto => has_mail,
        Switch::On => true,
        Switch::Off => false,
    }
}

/// How people come in.
pub fn door(checked: &Checked) -> Door {
    Door { registrations: registrations(checked), confirm_email: confirm_email(checked) }
}

/// What is configured about pages.
pub fn pages(checked: &Checked) -> weir_pages::Options {
    weir_pages::Options { door: door(checked), throttle: !checked.modes.dev }
}
