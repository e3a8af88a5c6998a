//! What was loaded, and over it what a decision made of it.

use std::hash::Hash;

use hashbrown::HashMap;

/// Things by name. A thing may be known not to exist.
#[derive(Clone, Debug)]
pub(super) struct Layer<K, V> {
    loaded: HashMap<K, Option<V>>,
    decided: HashMap<K, Option<V>>,
}

impl<K, V> Default for Layer<K, V> {
    fn default() -> Self {
        Layer { loaded: HashMap::new(), decided: HashMap::new() }
    }
}

impl<K: Hash + Eq + Copy + Ord, V> Layer<K, V> {
    /// The names of what was decided, in order.
    pub(super) fn changed(&self) -> Vec<K> {
        let mut names: Vec<K> = self.decided.keys().copied().collect();
        names.sort_unstable();
        names
    }
}

impl<K: Hash + Eq, V> Layer<K, V> {
    /// Puts down what the database has.
    pub(super) fn load(&mut self, name: K, thing: Option<V>) {
        self.loaded.insert(name, thing);
    }

    /// Puts down that there is none, unless something is known already.
    pub(super) fn load_none(&mut self, name: K) {
        self.loaded.entry(name).or_insert(None);
    }

    /// Nothing is known of it any more.
    pub(super) fn unload(&mut self, name: &K) {
        self.loaded.remove(name);
    }

    /// To be added to while it is being loaded.
    pub(super) fn loaded_mut(&mut self, name: &K) -> Option<&mut V> {
        self.loaded.get_mut(name)?.as_mut()
    }

    /// Forgets what was decided.
    pub(super) fn begin(&mut self) {
        self.decided.clear();
    }

    pub(super) fn set(&mut self, name: K, thing: Option<V>) {
        self.decided.insert(name, thing);
    }

    /// The names of what the database has.
    pub(super) fn loaded(&self) -> impl Iterator<Item = &K> {
        self.loaded.iter().filter(|(_, thing)| thing.is_some()).map(|(name, _)| name)
    }

    /// Whether it is known what the database has.
    pub(super) fn is_known(&self, name: &K) -> bool {
        self.decided.contains_key(name) || self.loaded.contains_key(name)
    }

    pub(super) fn is_changed(&self, name: &K) -> bool {
        self.decided.contains_key(name)
    }

    /// What it is now; none also if nothing is known.
    pub(super) fn get(&self, name: &K) -> Option<&V> {
        self.decided.get(name).or_else(|| self.loaded.get(name))?.as_ref()
    }

    /// What it was in the database.
    pub(super) fn was(&self, name: &K) -> Option<&V> {
        self.loaded.get(name)?.as_ref()
    }

    /// To be changed by the decision; none if nothing is known.
    pub(super) fn get_mut(&mut self, name: &K) -> Option<&mut V>
    where
        K: Clone,
        V: Clone,
    {
        if !self.decided.contains_key(name) {
            let loaded = self.loaded.get(name)?.clone();
            self.decided.insert(name.clone(), loaded);
        }
        self.decided.get_mut(name)?.as_mut()
    }

    /// What was decided, by name.
    pub(super) fn decided(&self) -> impl Iterator<Item = (&K, Option<&V>)> {
        self.decided.iter().map(|(name, thing)| (name, thing.as_ref()))
    }
}
