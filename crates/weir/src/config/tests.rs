use std::path::Path;

use super::*;

fn load_text(text: &str) -> Result<Loaded, ConfigError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weir.toml");
    std::fs::write(&path, text).unwrap();
    load(Some(&path), std::iter::empty(), &[])
}

fn refusal(text: &str) -> String {
    let message = load_text(text).unwrap_err().to_string();
    message.split_once("weir.toml ").map_or(message.clone(), |(_, rest)| rest.to_owned())
}

fn checked(modes: Modes, flags: &[(&'static str, &str)]) -> Result<Checked, String> {
    let flags: Vec<_> = flags
        .iter()
        .map(|(key, value)| Flag { flag: "--flag", key, value: (*value).to_owned() })
        .collect();
    let mut loaded = load(None, std::iter::empty(), &flags).map_err(|error| error.to_string())?;
    check(&mut loaded, modes).map_err(|error| error.to_string())
}

const DEV: Modes = Modes { dev: true, demo: false };
const SERVE: Modes = Modes { dev: false, demo: false };

#[test]
fn the_committed_example_is_the_generated_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weir.example.toml");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == example(), "run `cargo xtask example-config` and commit the result");
}

#[test]
fn the_example_with_every_key_uncommented_gives_the_defaults() {
    let uncommented: Vec<_> = example()
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => setting.to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    let loaded = load_text(&uncommented.join("\n")).unwrap();
    let defaults = Config::default();
    assert_eq!(loaded.origins.len(), Config::KEYS.len());
    for key in Config::KEYS {
        assert_eq!(loaded.config.shown(key), defaults.shown(key), "{}", key.path());
    }
}

#[test]
fn a_flag_wins_over_a_variable_and_a_variable_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weir.toml");
    let text = "domain = \"file.test\"\n[http]\nlisten = \"127.0.0.1:1\"\n[log]\nlevel = \"warn\"";
    std::fs::write(&path, text).unwrap();
    let variables = [("WEIR_DOMAIN", "env.test"), ("WEIR_HTTP_LISTEN", "127.0.0.1:2")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let flags = [Flag { flag: "--domain", key: "domain", value: "flag.test".into() }];
    let loaded = load(Some(&path), variables.into_iter(), &flags).unwrap();
    assert_eq!(loaded.config.domain, "flag.test");
    assert_eq!(*loaded.origin("domain"), Origin::Flag("--domain"));
    assert_eq!(loaded.config.http.listen, Some("127.0.0.1:2".parse().unwrap()));
    assert_eq!(*loaded.origin("http.listen"), Origin::Variable("WEIR_HTTP_LISTEN".into()));
    assert_eq!(*loaded.origin("log.level"), Origin::File { path, line: 5 });
    assert_eq!(*loaded.origin("tls.cert"), Origin::Default);
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_nearest_known_one() {
    let message = refusal("domain = \"a.test\"\n\n[http]\nlitsen = \"127.0.0.1:1\"\n");
    assert_eq!(message, "line 4: unknown key \"http.litsen\"; did you mean \"http.listen\"?");
    let message = refusal("listen = \"127.0.0.1:1\"\n");
    assert!(message.contains(".listen\"?"), "{message}");
    let message = refusal("[databse]\nurl = \"\"\n");
    assert_eq!(message, "line 1: unknown key \"databse\"; did you mean \"database\"?");
}

#[test]
fn a_bad_value_is_refused_with_its_line_its_key_and_what_is_expected() {
    let message = refusal("[http]\n\nlisten = 8080\n");
    assert_eq!(message, "line 3: http.listen: expected a text in quotes, found an integer");
    let message = refusal("[federation]\nmode = \"closed\"\n");
    let expected =
        "line 2: federation.mode: expected one of open, allowlist, off, found \"closed\"";
    assert_eq!(message, expected);
    let message = refusal("[http]\ntrusted_proxies = [\"10.0.0.0/40\"]\n");
    assert!(message.starts_with("line 2: http.trusted_proxies: expected an address"), "{message}");
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    let message = refusal("domain = \"a.test\"\nlisten =\n");
    assert!(message.starts_with("line 2: "), "{message}");
}

#[test]
fn variables_that_name_no_key_are_told_with_the_one_they_resemble() {
    let variables = [("WEIR_DATABASE_URI", "x"), ("WEIR_CONFIG", "y"), ("WEIR_TEST_POSTGRES", "z")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let loaded = load(None, variables.into_iter(), &[]).unwrap();
    let expected = ("WEIR_DATABASE_URI".to_owned(), "WEIR_DATABASE_URL".to_owned());
    assert_eq!(loaded.strangers, [expected]);
}

#[test]
fn passwords_in_addresses_are_not_shown() {
    let url = Secret::new("postgres://weir:hunter2@db/weir".to_owned());
    assert_eq!(url.shown(), "\"postgres://weir:***@db/weir\"");
}

#[test]
fn without_dev_a_domain_is_needed_and_takes_no_port() {
    assert!(checked(SERVE, &[]).unwrap_err().contains("WEIR_DOMAIN"));
    assert!(checked(SERVE, &[("domain", "a.social:80")]).unwrap_err().contains("public_url"));
    assert!(checked(SERVE, &[("domain", "A.Social")]).unwrap_err().contains("\"a.social\""));
    assert!(checked(SERVE, &[("domain", "a.social/x")]).is_err());
    assert!(checked(SERVE, &[("domain", "a.social")]).is_ok());
}

#[test]
fn dev_refuses_domains_that_are_not_local() {
    for local in
        ["localhost", "localhost:3000", "a.localhost", "b.test", "127.0.0.2:8001", "[::1]:80"]
    {
        assert!(checked(DEV, &[("domain", local)]).is_ok(), "{local}");
    }
    for remote in ["example.social", "10.0.0.1", "test", "localhost.example"] {
        assert!(checked(DEV, &[("domain", remote)]).is_err(), "{remote}");
    }
}

#[test]
fn dev_and_demo_refuse_to_listen_where_others_reach() {
    let demo = Modes { dev: false, demo: true };
    for modes in [DEV, demo] {
        let flags = [("domain", "a.test"), ("http.listen", "0.0.0.0:8080")];
        assert!(checked(modes, &flags).unwrap_err().contains("loopback"));
        let flags = [("domain", "a.test"), ("metrics.listen", "[::]:9464")];
        assert!(checked(modes, &flags).unwrap_err().contains("loopback"));
    }
    assert!(checked(SERVE, &[("domain", "a.test"), ("http.listen", "0.0.0.0:8080")]).is_ok());
}

#[test]
fn dev_without_a_domain_takes_the_address_it_listens_on() {
    let checked = checked(DEV, &[("http.listen", "127.0.0.1:0")]).unwrap();
    assert_eq!(checked.domain("127.0.0.1:4000".parse().unwrap()), "localhost:4000");
    assert_eq!(checked.domain("127.0.0.2:4000".parse().unwrap()), "127.0.0.2:4000");
    assert_eq!(checked.public_url("127.0.0.1:4000".parse().unwrap()), "http://localhost:4000");
}

#[test]
fn the_public_url_is_the_domain_over_https_unless_told_otherwise() {
    let bound = "127.0.0.1:4000".parse().unwrap();
    let plain = checked(SERVE, &[("domain", "a.social")]).unwrap();
    assert_eq!(plain.public_url(bound), "https://a.social");
    let flags = [("domain", "a.social"), ("http.public_url", "https://web.a.social/")];
    assert_eq!(checked(SERVE, &flags).unwrap().public_url(bound), "https://web.a.social");
    let flags = [("domain", "a.social"), ("http.public_url", "http://a.social")];
    assert!(checked(SERVE, &flags).is_err());
}

#[test]
fn a_certificate_needs_its_key() {
    let flags = [("domain", "a.social"), ("tls.cert", "cert.pem")];
    assert!(checked(SERVE, &flags).unwrap_err().contains("tls.key"));
}

#[test]
fn a_certificate_that_cannot_be_read_is_refused_with_its_key_and_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let refusal = |cert: &str, key: &str| {
        let flags = [("domain", "a.social"), ("tls.cert", cert), ("tls.key", key)];
        checked(SERVE, &flags).unwrap_err()
    };
    let missing = refusal(&path("none.pem"), &path("key.pem"));
    assert!(missing.contains("tls.cert") && missing.contains("none.pem"), "{missing}");
    assert!(missing.contains("give a PEM file"), "{missing}");
    std::fs::write(path("text.pem"), "no certificate").unwrap();
    assert!(refusal(&path("text.pem"), &path("key.pem")).contains("text.pem"));
}

#[test]
fn a_database_that_is_none_of_ours_is_refused() {
    let refusal = |url: &str| {
        checked(SERVE, &[("domain", "a.social"), ("database.url", url)]).map(|_| ()).unwrap_err()
    };
    for url in ["mysql://db/weir", "weir.db", "postgres:/db/weir"] {
        let reason = refusal(url);
        assert!(reason.contains("database.url") && reason.contains("sqlite:PATH"), "{reason}");
    }
    let reason = refusal("postgres://weir:secret@db/weir?sslmode=sometimes");
    assert!(reason.contains("sslmode") && !reason.contains("secret"), "{reason}");
    for url in ["sqlite:weir.db", "postgres://weir:secret@db/weir", "postgresql://db/weir"] {
        assert!(checked(SERVE, &[("domain", "a.social"), ("database.url", url)]).is_ok(), "{url}");
    }
}

#[test]
fn on_sqlite_one_process_does_all() {
    let flags = [("domain", "a.social"), ("roles", "web")];
    assert!(checked(SERVE, &flags).unwrap_err().contains("PostgreSQL"));
    let flags = [("domain", "a.social"), ("roles", "web"), ("database.url", "postgres://h/d")];
    assert!(checked(SERVE, &flags).is_ok());
}

#[test]
fn dev_lets_everybody_sign_up_unless_told_otherwise() {
    let open = checked(DEV, &[]).unwrap().config.registrations;
    assert_eq!((open.mode, open.confirm_email), (RegistrationMode::Open, Switch::Off));
    let told = checked(DEV, &[("registrations.mode", "invite")]).unwrap().config.registrations;
    assert_eq!(told.mode, RegistrationMode::Invite);
    let serve = checked(SERVE, &[("domain", "a.social")]).unwrap().config.registrations;
    assert_eq!((serve.mode, serve.confirm_email), (RegistrationMode::Approval, Switch::Auto));
}

#[test]
fn a_level_of_the_log_that_nobody_knows_is_refused() {
    let with =
        |level: &str| checked(SERVE, &[("domain", "a.test"), ("log.level", level)]).map(|_| ());
    for level in ["warning", "verbose", "info,weir_http", "weir_http=loud", "info,", ""] {
        let refused = with(level).unwrap_err();
        assert!(refused.contains("log.level"), "{level}: {refused}");
    }
    assert!(with("warning").unwrap_err().contains("off, error, warn, info, debug, trace"));
    for level in ["off", "WARN", "info,weir_http=debug", "weir_http=trace"] {
        assert_eq!(with(level), Ok(()), "{level}");
    }
}

#[test]
fn jobs_on_redis_need_its_address() {
    let with = |flags: &[(&'static str, &str)]| {
        let domain = [("domain", "a.test")];
        checked(SERVE, &domain.iter().chain(flags).copied().collect::<Vec<_>>())
    };
    let missing = with(&[("jobs.backend", "redis")]).unwrap_err();
    assert!(missing.contains("redis.url"), "{missing}");
    let wrong = with(&[("redis.url", "http://a.test")]).unwrap_err();
    assert!(wrong.contains("redis://"), "{wrong}");
    let config =
        with(&[("jobs.backend", "redis"), ("redis.url", "redis://a.test")]).unwrap().config;
    assert_eq!(config.jobs.backend, JobsBackend::Redis);
}
