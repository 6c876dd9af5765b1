//! `weir account`

use clap::{ArgGroup, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_base::{Id, Secret};
use weir_community::accounts::{self, Account, NewAccount};
use weir_community::oauth::{self, Scopes};
use weir_community::users::{self, NewUser, User, UserChange};
use weir_community::{Error, users as roles};
use weir_db::{Class, Tx};

use crate::parts::Parts;

/// Accounts read in one go when all are listed.
const PAGE: usize = 500;

/// What can be set, by its names in [`AccountCommand::Set`].
const CHANGES: [&str; 5] = ["email", "password", "role", "approved", "disabled"];

/// What to do with accounts.
#[derive(Debug, Clone, Subcommand, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountCommand {
    /// Make an account, confirmed and approved.
    #[command(after_help = "Example:\n  weir account create alice --email alice@example.social")]
    Create {
        /// What stands before the @.
        name: String,
        /// The e-mail address to log in with.
        #[arg(long)]
        email: String,
        /// The password; where it is left out, one is made up and printed.
        #[arg(long)]
        password: Option<String>,
        /// What the account may do.
        #[arg(long, value_enum, default_value_t = Role::User)]
        role: Role,
    },
    /// List the accounts here.
    #[command(after_help = "Example:\n  weir account list --json")]
    List,
    /// Show one account.
    #[command(after_help = "Example:\n  weir account show alice")]
    Show {
        /// What stands before the @.
        name: String,
    },
    /// Change how a person logs in, and what they may do; the last admin stays one.
    #[command(after_help = "Example:\n  weir account set alice --role admin")]
    #[command(group(ArgGroup::new("change").args(CHANGES).required(true).multiple(true)))]
    Set {
        /// What stands before the @.
        name: String,
        /// A new e-mail address.
        #[arg(long)]
        email: Option<String>,
        /// A new password.
        #[arg(long)]
        password: Option<String>,
        /// What the account may do.
        #[arg(long, value_enum)]
        role: Option<Role>,
        /// Whether the account was let in.
        #[arg(long)]
        approved: Option<bool>,
        /// Whether the account is shut out.
        #[arg(long)]
        disabled: Option<bool>,
    },
    /// Delete an account and everything of it, unless it is the last admin's.
    #[command(after_help = "Example:\n  weir account delete alice")]
    Delete {
        /// What stands before the @.
        name: String,
    },
    /// Make a bearer token and print it.
    #[command(after_help = "Example:\n  weir account token alice --scopes \"read write\"")]
    Token {
        /// What stands before the @.
        name: String,
        /// What the token may do.
        #[arg(long, default_value = "read write follow push")]
        scopes: String,
    },
}

/// What an account may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What everybody may.
    User,
    /// Act on reports and accounts.
    Moderator,
    /// Everything.
    Admin,
}

impl From<Role> for roles::Role {
    fn from(role: Role) -> Self {
        match role {
            Role::User => Self::User,
            Role::Moderator => Self::Moderator,
            Role::Admin => Self::Admin,
        }
    }
}

pub(super) async fn execute(parts: &Parts, command: AccountCommand) -> Result<Value, String> {
    let done = match command {
        AccountCommand::Create { name, email, password, role } => {
            create(parts, name, email, password, role.into()).await
        }
        AccountCommand::List => list(parts).await,
        AccountCommand::Show { name } => show(parts, name).await,
        AccountCommand::Set { name, email, password, role, approved, disabled } => {
            let role = role.map(Into::into);
            let change = UserChange { email, password: None, role, approved, disabled };
            set(parts, name, password, change).await
        }
        AccountCommand::Delete { name } => delete(parts, name).await,
        AccountCommand::Token { name, scopes } => token(parts, name, &scopes).await,
    };
    done.map_err(|error| match error {
        Error::NotFound(_) => format!("{error}; `weir account list` shows who is here"),
        other => other.to_string(),
    })
}

async fn create(
    parts: &Parts,
    name: String,
    email: String,
    password: Option<String>,
    role: roles::Role,
) -> Result<Value, Error> {
    let made_up = password.is_none().then(|| parts.random.token(12));
    let password = password.or_else(|| made_up.clone()).unwrap_or_default();
    users::check_password(&password)?;
    let user = NewUser {
        email,
        password: users::hash_password(&password).await?,
        role,
        confirmed: true,
        approved: true,
        locale: "en".into(),
        reason: String::new(),
        ip: String::new(),
        invite_id: None,
    };
    let new = NewAccount { username: name, user, reserved_allowed: true };
    let unit = move |tx: &mut Tx, env: &_| {
        let id = accounts::create(tx, env, &new)?;
        Ok((accounts::by_id(tx, id)?, users::by_account(tx, id)?))
    };
    let (account, user) = parts.community.write(Class::Interactive, unit).await?;
    let mut shown = describe(&account, &user);
    if let (Some(password), Some(fields)) = (made_up, shown.as_object_mut()) {
        fields.insert("password".into(), password.into());
    }
    Ok(shown)
}

fn describe(account: &Account, user: &User) -> Value {
    json!({
        "id": account.id.to_string(),
        "name": account.username,
        "email": user.email,
        "role": user.role,
        "confirmed": user.confirmed_at.is_some(),
        "approved": user.approved,
        "disabled": user.disabled,
        "suspended": account.suspended_at.is_some(),
        "posts": account.statuses_count,
        "created_at": user.created_at.to_string(),
    })
}

async fn list(parts: &Parts) -> Result<Value, Error> {
    let mut rows = Vec::new();
    let mut after = Id::ZERO;
    loop {
        let unit = move |tx: &mut Tx, _: &_| {
            let page = users::list(tx, after, PAGE)?;
            let ids: Vec<Id> = page.iter().map(|user| user.account_id).collect();
            Ok((page, accounts::by_ids(tx, &ids)?))
        };
        let (page, accounts) = parts.community.read(Class::Interactive, unit).await?;
        for user in &page {
            if let Some(account) = accounts.iter().find(|one| one.id == user.account_id) {
                rows.push(describe(account, user));
            }
        }
        match page.last() {
            Some(last) if page.len() == PAGE => after = last.account_id,
            _ => return Ok(Value::Array(rows)),
        }
    }
}

/// The local account `name` and its user.
fn find(tx: &mut Tx, name: &str) -> Result<(Account, User), Error> {
    let name = name.trim_start_matches('@');
    let account = accounts::by_address(tx, name, "")?
        .filter(|account| account.deleted_at.is_none())
        .ok_or(Error::NotFound("Account"))?;
    let user = users::by_account(tx, account.id)?;
    Ok((account, user))
}

async fn show(parts: &Parts, name: String) -> Result<Value, Error> {
    let unit = move |tx: &mut Tx, _: &_| find(tx, &name);
    let (account, user) = parts.community.read(Class::Interactive, unit).await?;
    Ok(describe(&account, &user))
}

async fn set(
    parts: &Parts,
    name: String,
    password: Option<String>,
    mut change: UserChange,
) -> Result<Value, Error> {
    if let Some(password) = password {
        users::check_password(&password)?;
        change.password = Some(users::hash_password(&password).await?);
    }
    let unit = move |tx: &mut Tx, env: &_| {
        let (account, _) = find(tx, &name)?;
        users::change(tx, env, account.id, &change)?;
        find(tx, &name)
    };
    let (account, user) = parts.community.write(Class::Interactive, unit).await?;
    Ok(describe(&account, &user))
}

async fn delete(parts: &Parts, name: String) -> Result<Value, Error> {
    let unit = move |tx: &mut Tx, env: &_| {
        let (account, _) = find(tx, &name)?;
        accounts::delete(tx, env, account.id)?;
        Ok(account.username)
    };
    let name = parts.community.write(Class::Interactive, unit).await?;
    Ok(json!({ "name": name, "deleted": true }))
}

async fn token(parts: &Parts, name: String, scopes: &str) -> Result<Value, Error> {
    let scopes: Scopes = scopes.parse().map_err(|error: oauth::UnknownScope| {
        Error::invalid("scopes", "ERR_INVALID", format!("name what nobody knows: {}", error.0))
    })?;
    let unit = move |tx: &mut Tx, env: &_| {
        let (account, _) = find(tx, &name)?;
        // No app stands behind a token from the command line.
        oauth::issue(tx, env, Id::ZERO, Some(account.id), &scopes)
    };
    let made = parts.community.write(Class::Interactive, unit).await?;
    let token: &Secret<String> = &made.token;
    Ok(json!({ "token": token.expose() }))
}
