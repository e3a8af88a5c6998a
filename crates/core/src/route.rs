//! The route: the stages that an item passes, in order.
//!
//! Completing a stage moves an item to the next one, so "vectors only after OCR" is not a rule at
//! pickup: an item simply is not yet in that stage.

use std::sync::{Arc, LazyLock};

use crate::limits::{BELOW_MAX, NAME_MAX, ROUTE_MAX, STAGES_MAX};
use crate::refusal::Refusal;
use crate::text::{has_nul, limit};

/// The stage of an item that was given no route.
pub const DEFAULT_STAGE: &str = "work";

/// Ordered stages; at least one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Route {
    pub stages: Vec<Stage>,
}

/// One step of a route.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stage {
    pub name: Arc<str>,
    /// The phases that children of this stage will pass. Announcing them lets a parent show those
    /// phases as pending before the children exist.
    pub below: Vec<Arc<str>>,
}

impl Stage {
    pub fn new(name: impl Into<Arc<str>>) -> Stage {
        Stage { name: name.into(), below: Vec::new() }
    }

    /// A stage that splits into children which pass `below`.
    pub fn splitting(name: impl Into<Arc<str>>, below: &[&str]) -> Stage {
        Stage { name: name.into(), below: below.iter().map(|b| Arc::from(*b)).collect() }
    }
}

impl Route {
    /// The route of an item that was given none.
    pub fn single() -> Arc<Route> {
        static SINGLE: LazyLock<Arc<Route>> = LazyLock::new(|| Route::of(&[DEFAULT_STAGE]));
        Arc::clone(&SINGLE)
    }

    /// A route of plain stages.
    pub fn of(names: &[&str]) -> Arc<Route> {
        Arc::new(Route { stages: names.iter().map(|name| Stage::new(*name)).collect() })
    }

    pub fn len(&self) -> usize {
        self.stages.len()
    }

    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    pub fn stage(&self, index: u8) -> &Stage {
        &self.stages[usize::from(index)]
    }

    /// The index of the stage with this name.
    pub fn find(&self, name: &str) -> Option<u8> {
        self.stages.iter().position(|stage| &*stage.name == name).map(|index| index as u8)
    }

    /// Roughly how many bytes it takes.
    pub fn weight(&self) -> usize {
        let below = |stage: &Stage| stage.below.iter().map(|b| b.len() + 2).sum::<usize>();
        self.stages.iter().map(|stage| stage.name.len() + 2 + below(stage)).sum()
    }

    /// Refuses a route that is empty, too long, repeats a stage or has unfit names.
    pub fn validate(&self) -> Result<(), Refusal> {
        if self.stages.is_empty() || self.stages.len() > STAGES_MAX {
            return Err(Refusal::invalid("route", "must have between 1 and 16 stages"));
        }
        for (index, stage) in self.stages.iter().enumerate() {
            if stage.name.is_empty() || stage.name.len() > NAME_MAX {
                return Err(Refusal::invalid("route", "a stage name must have 1 to 128 bytes"));
            }
            if self.stages[..index].iter().any(|earlier| earlier.name == stage.name) {
                return Err(Refusal::invalid("route", "must not name a stage twice"));
            }
            if stage.below.len() > BELOW_MAX || stage.below.iter().any(|b| b.len() > NAME_MAX) {
                return Err(Refusal::invalid("route", "a stage announces at most 16 phases"));
            }
            if stage.below.iter().chain([&stage.name]).any(|name| has_nul(name)) {
                let why = "a stage name must not have a NUL character (U+0000)";
                return Err(Refusal::invalid("route", why));
            }
        }
        limit("route", self.weight(), ROUTE_MAX)
    }
}
