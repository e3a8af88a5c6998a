//! A volume: a small ext4 file system in a file, mounted by loop, whose power can be cut.
//!
//! Needs root and loop devices. Where they are missing, [`Volume::missing`] says what.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::servers::process::until;

/// How long an image may stay in use after it was unmounted.
const DETACHED_WITHIN: Duration = Duration::from_secs(120);

/// A mounted file system of its own.
#[derive(Debug)]
pub struct Volume {
    image: PathBuf,
    mount: PathBuf,
    mounted: bool,
}

impl Volume {
    /// What keeps a volume from being made here, if anything does.
    pub fn missing() -> Option<String> {
        if !cfg!(target_os = "linux") {
            return Some("this is not Linux".to_owned());
        }
        let root = std::fs::metadata("/proc/self").map(|own| {
            use std::os::unix::fs::MetadataExt as _;
            own.uid() == 0
        });
        if !root.unwrap_or(false) {
            return Some("not running as root".to_owned());
        }
        if !Path::new("/dev/loop-control").exists() {
            return Some("there are no loop devices".to_owned());
        }
        let found = |program: &&str| {
            let mut asked = Command::new(program);
            asked.arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
        };
        let absent =
            ["mkfs.ext4", "mount", "umount", "losetup"].into_iter().find(|program| !found(program));
        absent.map(|program| format!("{program} is not installed"))
    }

    /// Makes a file system of that size inside of `dir`, and mounts it there.
    pub fn create(dir: &Path, bytes: u64) -> io::Result<Volume> {
        let (image, mount) = (dir.join("volume.img"), dir.join("volume"));
        std::fs::create_dir_all(&mount)?;
        std::fs::File::create(&image)?.set_len(bytes)?;
        let mut volume = Volume { image, mount, mounted: false };
        volume.format()?;
        Ok(volume)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.mount
    }

    /// Makes an empty file system of it, and mounts that.
    pub fn format(&mut self) -> io::Result<()> {
        self.unmount()?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&self.image))?;
        self.mount()
    }

    /// Cuts the power: whatever is not on the disk now will never be.
    pub fn cut(&self) -> io::Result<()> {
        super::shutdown::shut_down(&self.mount)
    }

    /// Mounts it again, as after a restart of the machine. Nobody may have files open in it.
    pub fn restart(&mut self) -> io::Result<()> {
        self.unmount()?;
        self.mount()
    }

    fn mount(&mut self) -> io::Result<()> {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.mount))?;
        self.mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.mounted) {
            run(Command::new("umount").arg(&self.mount))?;
            self.until_detached()?;
        }
        Ok(())
    }

    /// Somebody with mounts of their own may hold the file system a little longer. Mounted again
    /// now it would be the one whose power was cut, and no restart at all.
    fn until_detached(&self) -> io::Result<()> {
        let is_detached = || {
            let loops = Command::new("losetup").arg("-j").arg(&self.image).output();
            loops.is_ok_and(|loops| loops.stdout.is_empty())
        };
        if until(DETACHED_WITHIN, is_detached) {
            return Ok(());
        }
        Err(io::Error::other(format!("{} stays in use after umount", self.image.display())))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if let Err(error) = self.unmount() {
            eprintln!("{} stays mounted: {error}", self.mount.display());
        }
    }
}

fn run(command: &mut Command) -> io::Result<()> {
    let done = command.stdin(Stdio::null()).output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(format!("{command:?}: {}", said.trim())))
}
