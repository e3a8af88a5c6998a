//! Where a running server can be found: it leaves its address beside its store.
//!
//! The file is written when the server listens and removed when it stops. One that was left behind
//! by a server that was killed is recognised: either nobody holds the store, or another process.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cli::data_dir::ANNOUNCED;

/// What a server says of itself.
#[derive(Deserialize, Serialize, Debug)]
pub(crate) struct Announcement {
    pub(crate) pid: u32,
    pub(crate) http: String,
    pub(crate) rpc: Option<String>,
}

/// As long as this is there, so is the file.
#[derive(Debug)]
pub(crate) struct Announced(PathBuf);

impl Announced {
    /// Says in a data directory where its server is.
    pub(crate) fn at(
        dir: &Path,
        scheme: &str,
        http: SocketAddr,
        rpc: Option<SocketAddr>,
    ) -> io::Result<Announced> {
        let said = Announcement {
            pid: std::process::id(),
            http: format!("{scheme}://{}", from_here(http)),
            rpc: rpc.map(|rpc| from_here(rpc).to_string()),
        };
        let (path, fresh) = (dir.join(ANNOUNCED), dir.join(format!("{ANNOUNCED}.new")));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&fresh)?;
        // Also of one that a server left here which did not say so.
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.write_all(&serde_json::to_vec(&said)?)?;
        std::fs::rename(&fresh, &path)?;
        Ok(Announced(path))
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        // If it stays, it is recognised: nobody holds the store then.
        let _removed = std::fs::remove_file(&self.0);
    }
}

/// The address by which this machine reaches what listens on another.
fn from_here(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// The server that holds a data directory, if it is the one whose file is there. `by` says which
/// process holds it.
pub(in crate::cli) fn server_of(dir: &Path, by: &str) -> Option<Announcement> {
    let said = last_in(dir)?;
    let holds = by.split(|letter: char| !letter.is_ascii_digit());
    let is_the_same = holds.into_iter().any(|word| word.parse() == Ok(said.pid));
    is_the_same.then_some(said)
}

/// What the last server of a data directory said. Whether it is still there is not asked.
pub(super) fn last_in(dir: &Path) -> Option<Announcement> {
    let text = std::fs::read(dir.join(ANNOUNCED)).ok()?;
    serde_json::from_slice(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_whoever_holds_the_store_and_by_nobody_else() {
        let dir = std::env::temp_dir().join(format!("windrow-announced-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a directory");
        let everywhere = SocketAddr::from(([0, 0, 0, 0], 7117));
        let announced = Announced::at(&dir, "http", everywhere, None).expect("it is written");
        let by = |pid: u32| server_of(&dir, &format!("process {pid}")).map(|said| said.http);
        let mode = dir.join(ANNOUNCED).metadata().expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "as every file beside it");
        assert_eq!(by(std::process::id()).as_deref(), Some("http://127.0.0.1:7117"));
        assert_eq!(by(1), None, "a file that another one left behind");
        drop(announced);
        assert_eq!(by(std::process::id()), None);
        std::fs::remove_dir_all(dir).expect("it is there");
    }
}
