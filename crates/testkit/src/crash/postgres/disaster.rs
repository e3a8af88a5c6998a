//! Disasters: what happens to servers, database and network, one or two in a round.

use std::time::Duration;

use super::super::program::Failure;
use super::campaign::Campaign;
use super::fleet::SERVERS;
use super::proxy::Cut;
use crate::random::Splitmix;
use crate::servers::Stop;

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Disaster {
    /// kill -9 of a server; another is started in its place.
    Kill,
    /// `pg_ctl stop -m immediate`, and a start after a while.
    Stop,
    /// `pg_terminate_backend` of some connections.
    Terminate,
    /// Some commits are cut around their COMMIT.
    Cut,
    /// kill -9 of the primary; its standby takes over.
    Promote,
}

impl Disaster {
    pub const ALL: [Disaster; 5] =
        [Disaster::Kill, Disaster::Stop, Disaster::Terminate, Disaster::Cut, Disaster::Promote];

    pub fn name(self) -> &'static str {
        match self {
            Disaster::Kill => "kill -9 of a server",
            Disaster::Stop => "stop -m immediate",
            Disaster::Terminate => "terminated backends",
            Disaster::Cut => "commits cut",
            Disaster::Promote => "standby promoted",
        }
    }

    /// What happens in a round without a standby: one, and now and then two at once.
    pub fn draw(dice: &mut Splitmix) -> Vec<Disaster> {
        let mut of = [Disaster::Kill, Disaster::Stop, Disaster::Terminate, Disaster::Cut].to_vec();
        let mut drawn = vec![of.swap_remove(dice.below(of.len()))];
        if dice.percent(30) {
            drawn.push(of.swap_remove(dice.below(of.len())));
        }
        // Commits are cut while the other happens; the database comes back last.
        drawn.sort_by_key(|disaster| match disaster {
            Disaster::Cut => 0,
            Disaster::Stop | Disaster::Promote => 1,
            Disaster::Kill | Disaster::Terminate => 2,
        });
        drawn
    }

    /// What happens while a standby takes over.
    pub fn draw_with_standby(dice: &mut Splitmix) -> Vec<Disaster> {
        match dice.below(4) {
            0 => vec![Disaster::Promote],
            1 => vec![Disaster::Cut, Disaster::Promote],
            2 => vec![Disaster::Terminate, Disaster::Promote],
            _ => vec![Disaster::Promote, Disaster::Kill],
        }
    }
}

/// How many commits are cut in a round at most.
const CUTS_MAX: usize = 12;
/// How long the database is away at most; now and then longer than engines bear without a word.
const AWAY_MAX_MS: usize = 800;
const AWAY_LONG_MS: u64 = 7_000;
/// How long the network is away after a cut at most.
const CUT_OFF_MAX_MS: usize = 300;
/// How long armed cuts have to find a commit.
const CUT_WITHIN: Duration = Duration::from_secs(5);

impl Campaign {
    /// Lets all of these happen, and puts everything up again.
    pub(super) fn strike(&mut self, disasters: &[Disaster]) -> Result<(), Failure> {
        let mut down = false;
        for disaster in disasters {
            match disaster {
                Disaster::Cut => self.cut(),
                Disaster::Kill => {
                    let number = self.dice.below(usize::from(SERVERS)) as u8;
                    self.fleet.kill(number, &mut self.dice)?;
                }
                Disaster::Terminate if down => {}
                Disaster::Terminate => self.terminate()?,
                Disaster::Stop => {
                    self.database.primary.stop(Stop::Immediate).map_err(broken)?;
                    down = true;
                }
                Disaster::Promote => self.promote()?,
            }
            *self.summary.disasters.entry(*disaster).or_default() += 1;
        }
        if down {
            let away = match self.dice.percent(8) {
                true => AWAY_LONG_MS,
                false => self.dice.below(AWAY_MAX_MS) as u64,
            };
            std::thread::sleep(Duration::from_millis(away));
            self.database.primary.start_again().map_err(broken)?;
        }
        let proxy = self.proxy.clone();
        crate::servers::process::until(CUT_WITHIN, || !proxy.is_armed());
        self.proxy.disarm();
        Ok(())
    }

    fn cut(&mut self) {
        let count = 1 + self.dice.below(CUTS_MAX);
        let dice = &mut self.dice;
        let cuts = (0..count).map(|_| Cut::ALL[dice.below(Cut::ALL.len())]);
        let cuts: Vec<Cut> = cuts.collect();
        let away = if self.dice.percent(40) { self.dice.below(CUT_OFF_MAX_MS) as u64 } else { 0 };
        self.proxy.arm(cuts, Duration::from_millis(away));
    }

    fn terminate(&mut self) -> Result<(), Failure> {
        let count = 1 + self.dice.below(12);
        let sql = format!(
            "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity \
             where application_name = 'windrow' order by random() limit {count}) chosen"
        );
        let ended = self.database.primary.psql("postgres", &sql).map_err(broken)?;
        self.summary.terminated += ended.parse().unwrap_or(0);
        Ok(())
    }

    /// The primary dies, its standby takes over, and gets a standby of its own.
    fn promote(&mut self) -> Result<(), Failure> {
        let Some(standby) = self.database.standby.take() else {
            return Err(Failure::Broken(std::io::Error::other("nobody stands by")));
        };
        self.database.primary.stop(Stop::Kill).map_err(broken)?;
        standby.promote().map_err(broken)?;
        self.proxy.aim(standby.port());
        self.database.primary = standby;
        // Commits wait for it meanwhile.
        self.database.standby = Some(self.database.primary.standby().map_err(broken)?);
        Ok(())
    }
}

pub(super) fn broken(error: anyhow::Error) -> Failure {
    Failure::Broken(std::io::Error::other(format!("{error:#}")))
}
