//! How facts are said to people.

/// A time that has passed: `40 s`, `12 min`, `3 h`, `2 days`.
pub(super) fn time(ms: u64) -> String {
    let s = ms / 1_000;
    match s {
        0..120 => format!("{s} s"),
        120..7_200 => format!("{} min", s / 60),
        7_200..172_800 => format!("{} h", s / 3_600),
        _ => format!("{} days", s / 86_400),
    }
}

/// Bytes: `512 MiB`, `3.4 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    if bytes < GIB {
        return format!("{} MiB", bytes / MIB);
    }
    format!("{}.{} GiB", bytes / GIB, bytes % GIB * 10 / GIB)
}

/// A number of things: `1 item`, `2 items`.
pub(super) fn counted(count: u64, what: &str) -> String {
    crate::cli::counted(count, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_said_in_the_unit_that_fits() {
        assert_eq!(time(999), "0 s");
        assert_eq!(time(119_000), "119 s");
        assert_eq!(time(120_000), "2 min");
        assert_eq!(time(7_200_000), "2 h");
        assert_eq!(time(172_800_000), "2 days");
        assert_eq!(bytes(300 << 20), "300 MiB");
        assert_eq!(bytes((3 << 30) + (512 << 20)), "3.5 GiB");
    }
}
