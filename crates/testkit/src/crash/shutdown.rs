//! The power switch of a file system: one ioctl, and with it the one `unsafe` of this repository.
//!
//! ext4 can be shut down as if the power had failed: nothing that is not on the disk by then ever
//! gets there, the journal included. There is no safe call for it in the standard library, and the
//! crates that wrap ioctls ask for the same `unsafe`, so it stands here alone.
#![allow(unsafe_code, reason = "the system call has no safe wrapper")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

/// `EXT4_IOC_SHUTDOWN`, which is `_IOR('X', 125, __u32)`.
const SHUTDOWN: libc::Ioctl = 0x8004_587d_u32 as libc::Ioctl;

/// `EXT4_GOING_FLAGS_NOLOGFLUSH`: what is only in the journal's memory is lost as well.
const NO_LOG_FLUSH: u32 = 2;

/// Cuts the power of the ext4 file system that is mounted at `path`.
pub(super) fn shut_down(path: &Path) -> io::Result<()> {
    let dir = File::open(path)?;
    let flags = NO_LOG_FLUSH;
    // SAFETY: the descriptor is open for the whole call, and the kernel reads four bytes through
    // the pointer, which points to a live `u32`.
    let done = unsafe { libc::ioctl(dir.as_raw_fd(), SHUTDOWN, &raw const flags) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
