//! Addresses: where a database is, how the way there is protected, and what lies between.
//!
//! Takes what tokio-postgres understands, and four parameters more: the modes of `sslmode` that
//! verify a certificate, `sslrootcert`, `pooler` and `connections`. Nothing that this module says
//! shows a password.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::Error;
use super::tls::{Tls, Trust};

/// How long a connection may take to be made, unless the address says otherwise.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a server may be silent before it is asked whether it is there.
const SILENT: Duration = Duration::from_secs(10);
const ASK_EVERY: Duration = Duration::from_secs(5);
const ASK_TIMES: u32 = 3;
/// What an address that says nothing about it comes to.
const SILENT_BY_DEFAULT: Duration = Duration::from_secs(2 * 60 * 60);

/// Every statement here finds its rows by an index. A plan that was made while a table was empty is
/// kept, so that planning must not come to think otherwise.
pub(super) const PLANS: [(&str, &str); 6] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("enable_seqscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_bitmapscan", "off"),
    ("jit", "off"),
];

/// A database, and how to reach it.
#[derive(Clone, Debug)]
pub struct Address {
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: Tls,
    /// Between us and the database is a pooler that gives each transaction another connection.
    pub(super) pooled: bool,
    pub(super) connections: Option<usize>,
}

impl Address {
    /// Whether a text is meant as an address of PostgreSQL.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads `postgres://user:password@host:port/database?parameters`.
    pub fn parse(url: &str) -> Result<Address, Error> {
        if !Address::is_meant(url) {
            return Err(Error::Address("it does not begin with postgres://".into()));
        }
        let (place, parameters) = url.split_once('?').unwrap_or((url, ""));
        // What follows the first one would be taken for a host, and shown as one.
        if place.matches('@').count() > 1 {
            return Err(too_many_ats());
        }
        let (mut mode, mut roots) = ("prefer".to_owned(), None);
        let (mut pooled, mut connections) = (false, None);
        let mut rest: Vec<&str> = Vec::new();
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            match name {
                "sslmode" => mode = value.to_owned(),
                "sslrootcert" => roots = Some(decoded(value)),
                "pooler" => pooled = is_pooled(value)?,
                "connections" => connections = Some(number_of(value)?),
                _ => rest.push(parameter),
            }
        }
        let parsed = tokio_postgres::Config::from_str(&format!("{place}?{}", rest.join("&")));
        let mut config = parsed.map_err(|error| {
            // A parameter that nobody knows may be the rest of a password.
            if rest.iter().any(|parameter| parameter.contains('@')) {
                return too_many_ats();
            }
            let why = std::error::Error::source(&error).map(ToString::to_string);
            Error::Address(why.unwrap_or_else(|| error.to_string()))
        })?;
        let (mode, trust) = protection(&mode, roots.map(PathBuf::from))?;
        config.ssl_mode(mode);
        give_up_in_time(&mut config);
        // Of several addresses the one that takes writes, and a standby only once it is promoted.
        if config.get_target_session_attrs() == TargetSessionAttrs::Any {
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        // A pooler takes no options; there each transaction says it.
        if !pooled {
            let plans = PLANS.map(|(name, value)| format!("-c {name}={value}")).join(" ");
            let own = config.get_options().map_or(String::new(), |own| format!(" {own}"));
            config.options(plans + &own);
        }
        let tls = Tls::new(&trust).map_err(Error::Address)?;
        Ok(Address { config, tls, pooled, connections })
    }

    /// Whether it says which database is meant. If not, it is the one with the user's name.
    pub fn names_database(&self) -> bool {
        self.config.get_dbname().is_some_and(|name| !name.is_empty())
    }

    /// The hosts, their ports and the database, to be named in messages.
    pub fn shown(&self) -> String {
        let ports = self.config.get_ports();
        let port = |at: usize| ports.get(at).or(ports.first()).copied().unwrap_or(5432);
        let host = |(at, host): (usize, &Host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(at)),
            Host::Unix(path) => format!("{}:{}", path.display(), port(at)),
        };
        let hosts: Vec<String> = self.config.get_hosts().iter().enumerate().map(host).collect();
        let named = self.config.get_dbname().filter(|name| !name.is_empty());
        let database = named.or(self.config.get_user()).unwrap_or("postgres");
        format!("{}/{database}", hosts.join(","))
    }
}

fn too_many_ats() -> Error {
    let why = "there is more than one @ in it, or one behind a ?; in the password or user, write \
               %40 for @, %2F for / and %3F for ?";
    Error::Address(why.into())
}

/// A machine that dies says nothing. Without this, whoever waits for it waits for two hours, and
/// nobody gets to the one that took over.
fn give_up_in_time(config: &mut tokio_postgres::Config) {
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENT + ASK_EVERY * ASK_TIMES);
    }
    if config.get_keepalives_idle() == SILENT_BY_DEFAULT {
        config.keepalives_idle(SILENT).keepalives_interval(ASK_EVERY).keepalives_retries(ASK_TIMES);
    }
}

fn is_pooled(value: &str) -> Result<bool, Error> {
    match value {
        "transaction" => Ok(true),
        "none" | "session" => Ok(false),
        _ => Err(Error::Address("pooler is `transaction`, `session` or `none`".into())),
    }
}

fn number_of(value: &str) -> Result<usize, Error> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| Error::Address("connections is a number from 1 on".into()))
}

/// What the words of `sslmode` ask for. As with PostgreSQL's own programs, a named root certificate
/// is verified even where only encryption was asked for.
fn protection(mode: &str, roots: Option<PathBuf>) -> Result<(SslMode, Trust), Error> {
    let missing = || {
        let what = "needs sslrootcert=FILE, or sslrootcert=system for what this machine trusts";
        Error::Address(format!("sslmode={mode} {what}"))
    };
    Ok(match (mode, roots) {
        ("disable", _) => (SslMode::Disable, Trust::Anybody),
        ("prefer" | "allow", _) => (SslMode::Prefer, Trust::Anybody),
        ("require", None) => (SslMode::Require, Trust::Anybody),
        ("require" | "verify-ca", Some(roots)) => (SslMode::Require, Trust::Issued { roots }),
        ("verify-full", Some(roots)) => (SslMode::Require, Trust::Named { roots }),
        ("verify-ca" | "verify-full", None) => return Err(missing()),
        _ => {
            let known = "disable, prefer, require, verify-ca or verify-full";
            return Err(Error::Address(format!("sslmode is one of {known}")));
        }
    })
}

/// A value with `%41` read as `A`.
fn decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%');
        let byte = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match byte.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Address::parse(url).unwrap_err().to_string()
    }

    #[test]
    fn our_own_parameters_are_read_and_the_others_left_to_the_driver() {
        let url = "postgresql://a:b@h:1/d?sslmode=require&pooler=transaction&connections=7\
                   &connect_timeout=3";
        let address = Address::parse(url).unwrap();
        assert_eq!(address.shown(), "h:1/d");
        assert_eq!((address.pooled, address.connections), (true, Some(7)));
        assert_eq!(address.config.get_ssl_mode(), SslMode::Require);
        assert_eq!(address.config.get_connect_timeout(), Some(&Duration::from_secs(3)));
        assert_eq!(decoded("%2Ftmp%2Fa b%zz%4"), "/tmp/a b%zz%4");
    }

    #[test]
    fn a_dead_machine_is_given_up_in_time_unless_the_address_says_otherwise() {
        let check = |url: &str, connect: Duration, silent: Duration| {
            let config = Address::parse(url).unwrap().config;
            assert_eq!(config.get_connect_timeout(), Some(&connect), "{url}");
            assert_eq!(config.get_keepalives_idle(), silent, "{url}");
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite, "{url}");
        };
        check("postgres://u@h/d", CONNECT, SILENT);
        let own = "postgres://u@h/d?connect_timeout=3&keepalives_idle=60";
        check(own, Duration::from_secs(3), Duration::from_secs(60));
    }

    #[test]
    fn plans_are_an_option_of_the_session_unless_a_pooler_would_refuse_it() {
        let options =
            |url: &str| Address::parse(url).unwrap().config.get_options().map(str::to_owned);
        let direct = options("postgres://u@a:1,b:2/d?options=-c%20work_mem%3D1MB").unwrap();
        assert!(direct.contains("-c enable_seqscan=off"), "{direct}");
        assert!(direct.ends_with("-c work_mem=1MB"), "{direct}");
        assert_eq!(options("postgres://u@h/d?pooler=transaction"), None);
        let several = Address::parse("postgres://u@a:1,b:2/d").unwrap().shown();
        assert_eq!(several, "a:1,b:2/d");
    }

    #[test]
    fn what_is_wrong_is_said_with_what_is_right_and_without_the_password() {
        let check = |url: &str, part: &str| {
            let said = refused(url);
            assert!(said.contains(part), "{said}");
            assert!(!said.contains("hunter2"), "{said}");
        };
        check("mysql://u:hunter2@h/d", "postgres://");
        check("postgres://u:hunter2@h/d?sslmode=verify-full", "sslrootcert=FILE");
        check("postgres://u:hunter2@h/d?sslmode=maybe", "verify-full");
        check("postgres://u:hunter2@h/d?pooler=yes", "`transaction`");
        check("postgres://u:hunter2@h/d?connections=0", "from 1 on");
        check("postgres://u:hunter2@h:port/d", "port");
        check("postgres://u:hunter2@h/d?colour=red", "colour");
        check("postgres://u:hunter2@h/d?sslmode=verify-ca&sslrootcert=/no/such", "/no/such");
        check("postgres://u:p@hunter2/w@h:5544/d", "%2F");
        check("postgres://u:p@hunter2@h/d", "more than one @");
        check("postgres://u:p@x/hunter2@h", "%40");
        check("postgres://u:p@12?hunter2=w@h/d", "%3F");
        let shown = format!("{:?}", Address::parse("postgres://u:hunter2@h/d").unwrap());
        assert!(!shown.contains("hunter2"), "{shown}");
        let slash = Address::parse("postgres://u:hunter2/w@h/d").unwrap().shown();
        assert_eq!(slash, "h:5432/d");
    }
}
