//! Addresses: where a webhook may lead.
//!
//! Whoever may write a webhook must not reach through the server what only the server can reach:
//! itself, its network, the metadata of its machine. So only public addresses are called, and
//! others that the configuration names. The address is checked when it is connected to, and it is
//! that address which is connected to: a name that leads somewhere else a moment later is of no
//! use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Networks that may be called although they are not public.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Allowed(Vec<Network>);

/// An address, and how many of its bits count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl FromStr for Allowed {
    type Err = String;

    /// Reads addresses and networks with commas between them, such as `10.0.0.0/8,127.0.0.1`.
    fn from_str(text: &str) -> Result<Allowed, String> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(str::parse).collect::<Result<_, _>>().map(Allowed)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("{text:?} is not an address or a network like 10.0.0.0/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| wrong()))?;
        if bits > most {
            return Err(wrong());
        }
        Ok(Network { address, bits })
    }
}

impl Network {
    fn holds(&self, address: IpAddr) -> bool {
        let same =
            |a: u128, b: u128, width: u32| self.bits == 0 || (a ^ b) >> (width - self.bits) == 0;
        match (self.address, address) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

impl Allowed {
    pub(crate) fn names(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.holds(address.to_canonical()))
    }

    /// Whether an address may be called.
    pub(crate) fn admits(&self, address: IpAddr) -> bool {
        is_public(address.to_canonical()) || self.names(address)
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = match (a, b, c) {
        // This network, carriers' own, protocol assignments, the old 6to4 relays, benchmarks.
        (0, ..) | (100, 64..=127, _) | (192, 0, 0) | (192, 88, 99) | (198, 18..=19, _) => true,
        (240.., ..) => true,
        _ => false,
    };
    !special
        && !address.is_private()
        && !address.is_loopback()
        && !address.is_link_local()
        && !address.is_documentation()
        && !address.is_multicast()
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    // Only what is given out as public; of it not what leads into IPv4, or is for documents.
    s[0] & 0xe000 == 0x2000
        && s[0] != 0x2002
        && !(s[0] == 0x2001 && (s[1] < 0x0200 || s[1] == 0x0db8))
        && !(s[0] == 0x3fff && s[1] < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_called() {
        let nothing = Allowed::default();
        for address in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111"] {
            assert!(nothing.admits(address.parse().expect(address)), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "172.16.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::",
            "2001:db8::1",
            "2001::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!nothing.admits(address.parse().expect(address)), "{address}");
        }
    }

    #[test]
    fn what_is_configured_is_called_as_well() {
        let allowed: Allowed = "127.0.0.1, 10.0.0.0/8,fd00::/8".parse().expect("networks");
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "10.255.0.1", "fd12::1", "1.1.1.1"] {
            assert!(allowed.admits(address.parse().expect(address)), "{address}");
        }
        for address in ["127.0.0.2", "11.0.0.1x", "fe80::1", "192.168.0.1"] {
            assert!(!address.parse().is_ok_and(|at| !is_public(at) && allowed.admits(at)));
        }
        assert_eq!("".parse(), Ok(Allowed::default()));
        for wrong in ["localhost", "10.0.0.0/33", "10.0.0.0/x", "::/129"] {
            assert!(wrong.parse::<Allowed>().is_err(), "{wrong}");
        }
    }
}
