//! Vectors in a Qdrant, over its REST API.
//!
//! Each embedder and dimension has a collection there, which this makes with the indexes that
//! filters need; what we call a collection is a word beside each vector, and so is the tenant.
//! Waits until a write can be seen. Decides whose fault a refusal is, and holds an answer to what
//! was asked. Leaves out transactions, which Qdrant does not have: whether a collection of ours
//! holds another dimension is looked up before the first put, and by two processes at once not
//! seen.

mod name;
mod wire;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hyper::Method;
use hyper::header::HeaderName;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use self::name::Names;
use self::wire::{
    Collections, Conditions, Count, Counted, Create, Delete, Found, Index, Query, Said, Scroll,
    Updated, Upsert,
};
use super::{
    ChunkId, Filter, Hit, Point, Vectors, VectorsError, by_nearness, checked, dimensions, misfit,
};
use crate::adapters::endpoint::{self, Endpoint, NotATarget, Refused, Reply};

/// Where Qdrant expects a key.
const KEY_HEADER: HeaderName = HeaderName::from_static("api-key");

/// Numbers in one request at most, unless one vector has more: a third of what Qdrant takes.
const NUMBERS_MAX: usize = 1 << 20;

/// So often a collection is asked that another process is just making.
const LOOKS: u32 = 6;
/// The first pause in between; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(25);

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where it is, such as `http://127.0.0.1:6333`.
    pub url: String,
    /// The embedder whose vectors are kept, with its version.
    pub embedder: String,
    /// What the names of all collections in Qdrant begin with.
    pub prefix: String,
    /// Points in one request.
    pub batch_max: usize,
    /// The key, how long an answer may take, and whom to trust.
    pub endpoint: endpoint::Options,
}

impl Options {
    pub fn new(url: impl Into<String>, embedder: impl Into<String>) -> Options {
        Options {
            url: url.into(),
            embedder: embedder.into(),
            prefix: "windrow".to_owned(),
            batch_max: 256,
            endpoint: endpoint::Options::default(),
        }
    }
}

/// Vectors in a Qdrant.
pub struct Qdrant {
    endpoint: Endpoint,
    names: Names,
    batch_max: usize,
    /// Held while a collection is made, so that of many who come at once one makes it.
    making: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

/// What this process has seen.
#[derive(Default)]
struct Known {
    /// Dimensions whose collections are there, with their indexes.
    made: HashSet<usize>,
    /// What the collections of tenants hold.
    holds: HashMap<(String, String), usize>,
}

impl Qdrant {
    /// A Qdrant at an address. Nothing is sent yet.
    pub fn new(options: Options) -> Result<Qdrant, NotATarget> {
        let endpoint = Endpoint::new(&options.url, options.endpoint)?.key_in(KEY_HEADER);
        let names = Names::new(options.prefix, &options.embedder);
        let batch_max = options.batch_max.max(1);
        Ok(Qdrant {
            endpoint,
            names,
            batch_max,
            making: Default::default(),
            known: Default::default(),
        })
    }

    async fn put_all(&self, given: &[(Point, Vec<f32>)]) -> Result<(), VectorsError> {
        for (_, vector) in given {
            checked(vector)?;
        }
        let scopes = dimensions(given)?;
        for ((tenant, collection), dimension) in &scopes {
            self.fits(tenant, collection, *dimension).await?;
        }
        // Of two with one id the last stays.
        let last: BTreeMap<ChunkId, &(Point, Vec<f32>)> =
            given.iter().map(|one| (one.0.id, one)).collect();
        let mut by_dimension = BTreeMap::<usize, Vec<&(Point, Vec<f32>)>>::new();
        for one in last.values() {
            by_dimension.entry(one.1.len()).or_default().push(one);
        }
        for (dimension, points) in by_dimension {
            self.make(dimension).await?;
            let path = format!("/collections/{}/points?wait=true", self.names.of(dimension));
            for some in points.chunks((NUMBERS_MAX / dimension).clamp(1, self.batch_max)) {
                self.write(Method::PUT, &path, &Upsert::of(some)).await?;
            }
        }
        Ok(())
    }

    /// Refuses vectors for a collection that holds others.
    async fn fits(&self, tenant: &str, collection: &str, given: usize) -> Result<(), VectorsError> {
        let scope = (tenant.to_owned(), collection.to_owned());
        if self.known.lock().holds.get(&scope) == Some(&given) {
            return Ok(());
        }
        for (name, holds) in self.there().await?.into_iter().filter(|there| there.1 != given) {
            let of_scope = Some(Conditions::of_scope(tenant, collection));
            if self.one(&name, of_scope).await?.is_some() {
                return Err(misfit(tenant, collection, holds, given));
            }
        }
        self.known.lock().holds.insert(scope, given);
        Ok(())
    }

    /// Makes the collection of a dimension unless it is there. What another process has made, or
    /// has begun to make, is made whole here.
    async fn make(&self, dimension: usize) -> Result<(), VectorsError> {
        if self.known.lock().made.contains(&dimension) {
            return Ok(());
        }
        let _alone = self.making.lock().await;
        if self.known.lock().made.contains(&dimension) {
            return Ok(());
        }
        let name = self.names.of(dimension);
        let path = format!("/collections/{name}");
        let reply = self.ask(Method::PUT, &path, &Create::of(dimension)).await?;
        match reply.status {
            409 => self.until_ready(&name).await?,
            _ => drop(self.read::<bool>(&reply)?),
        }
        for index in Index::all() {
            self.write(Method::PUT, &format!("{path}/index?wait=true"), &index).await?;
        }
        self.known.lock().made.insert(dimension);
        Ok(())
    }

    /// A collection that another process is just making is known before it can be used.
    async fn until_ready(&self, name: &str) -> Result<(), VectorsError> {
        let path = format!("/collections/{name}/points/count");
        let (mut looks, mut pause) = (1, PAUSE);
        loop {
            let reply = self.ask(Method::POST, &path, &Count { filter: None, exact: true }).await?;
            if reply.status < 500 || looks == LOOKS {
                return self.read::<Counted>(&reply).map(drop);
            }
            tokio::time::sleep(pause).await;
            (looks, pause) = (looks + 1, pause * 2);
        }
    }

    async fn delete(&self, gone: Delete) -> Result<(), VectorsError> {
        // What becomes empty may hold another dimension from then on.
        self.known.lock().holds.clear();
        for (name, _) in self.there().await? {
            let path = format!("/collections/{name}/points/delete?wait=true");
            self.write(Method::POST, &path, &gone).await?;
        }
        Ok(())
    }

    async fn find(
        &self,
        query: &[f32],
        filter: &Filter,
        limit: usize,
    ) -> Result<Vec<Hit>, VectorsError> {
        checked(query)?;
        if limit == 0 || is_none(filter) {
            return Ok(Vec::new());
        }
        let there = self.there().await?;
        for (name, holds) in there.iter().filter(|there| there.1 != query.len()) {
            if let Some(hit) = self.one(name, Conditions::of(filter)).await? {
                let (tenant, collection) = (&hit.point.tenant, &hit.point.collection);
                return Err(misfit(tenant, collection, *holds, query.len()));
            }
        }
        let own = self.names.of(query.len());
        if !there.iter().any(|(name, _)| *name == own) {
            return Ok(Vec::new());
        }
        let path = format!("/collections/{own}/points/query");
        let filter = Conditions::of(filter);
        let ask = Query { query, filter, limit, with_payload: true };
        let found: Found = self.read(&self.ask(Method::POST, &path, &ask).await?)?;
        let mut hits: Vec<Hit> = found.points.into_iter().map(Hit::from).collect();
        hits.sort_by(by_nearness);
        hits.truncate(limit);
        Ok(hits)
    }

    async fn count_all(&self, filter: &Filter) -> Result<u64, VectorsError> {
        let mut sum = 0;
        if is_none(filter) {
            return Ok(sum);
        }
        for (name, _) in self.there().await? {
            let path = format!("/collections/{name}/points/count");
            let ask = Count { filter: Conditions::of(filter), exact: true };
            let counted: Counted = self.read(&self.ask(Method::POST, &path, &ask).await?)?;
            sum += counted.count;
        }
        Ok(sum)
    }

    /// The collections in Qdrant that are ours, of whatever embedder, and their dimensions.
    async fn there(&self) -> Result<Vec<(String, usize)>, VectorsError> {
        let reply = self.endpoint.ask(Method::GET, "/collections", Vec::new()).await;
        let reply = reply.map_err(|error| transient(error.to_string()))?;
        let said: Collections = self.read(&reply)?;
        let named = said.collections.into_iter().map(|one| one.name);
        Ok(named.filter_map(|name| self.names.dimension(&name).map(|one| (name, one))).collect())
    }

    /// Any point that meets the conditions.
    async fn one(
        &self,
        name: &str,
        filter: Option<Conditions>,
    ) -> Result<Option<Hit>, VectorsError> {
        let path = format!("/collections/{name}/points/scroll");
        let ask = Scroll { filter, limit: 1, with_payload: true };
        let found: Found = self.read(&self.ask(Method::POST, &path, &ask).await?)?;
        Ok(found.points.into_iter().next().map(Hit::from))
    }

    async fn write(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<(), VectorsError> {
        let reply = self.ask(method, path, body).await?;
        if reply.status == 404 {
            // Somebody dropped the collection. It is made anew by whoever tries again.
            *self.known.lock() = Known::default();
        }
        let updated: Updated = self.read(&reply)?;
        match &*updated.status {
            "completed" => Ok(()),
            other => Err(self.nonsense(format!("it did not finish the write: {other}"))),
        }
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Reply, VectorsError> {
        // Texts and numbers: there is nothing in it that JSON cannot say.
        let body = serde_json::to_vec(body).map_err(|error| transient(error.to_string()))?;
        let reply = self.endpoint.ask(method, path, body).await;
        reply.map_err(|error| transient(error.to_string()))
    }

    /// What an answer says, if it is one.
    fn read<T: DeserializeOwned>(&self, reply: &Reply) -> Result<T, VectorsError> {
        if reply.status != 200 {
            return Err(match self.endpoint.refused(reply, "does not do it") {
                Refused::Content(why) => VectorsError::Bad { why: format!("qdrant {why}") },
                Refused::Failed { why, retry_after_ms } => {
                    VectorsError::Transient { why, retry_after_ms }
                }
            });
        }
        let said: Result<Said<T>, _> = serde_json::from_slice(&reply.body);
        said.map(|said| said.result).map_err(|error| {
            let why = format!("its answer is not one of Qdrant's: {error}");
            self.nonsense(self.endpoint.hide(&why))
        })
    }

    fn nonsense(&self, why: String) -> VectorsError {
        transient(format!("{}: {why}", self.endpoint))
    }
}

/// Whether a filter admits nothing, whatever there is.
fn is_none(filter: &Filter) -> bool {
    filter.live.as_ref().is_some_and(|live| live.is_empty())
}

fn transient(why: String) -> VectorsError {
    VectorsError::Transient { why, retry_after_ms: None }
}

impl Vectors for Qdrant {
    fn name(&self) -> &str {
        "qdrant"
    }

    fn put<'a>(
        &'a self,
        points: &'a [(Point, Vec<f32>)],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        Box::pin(self.put_all(points))
    }

    fn remove_generation(
        &self,
        document: Uuid,
        generation: u32,
    ) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(self.delete(Delete::generation(document, generation)))
    }

    fn remove_document(&self, document: Uuid) -> BoxFuture<'_, Result<(), VectorsError>> {
        Box::pin(self.delete(Delete::document(document)))
    }

    fn remove_chunks<'a>(
        &'a self,
        chunks: &'a [ChunkId],
    ) -> BoxFuture<'a, Result<(), VectorsError>> {
        Box::pin(async move {
            match chunks {
                [] => Ok(()),
                _ => self.delete(Delete::chunks(chunks)).await,
            }
        })
    }

    fn search<'a>(
        &'a self,
        query: &'a [f32],
        filter: &'a Filter,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Hit>, VectorsError>> {
        Box::pin(self.find(query, filter, limit))
    }

    fn count<'a>(&'a self, filter: &'a Filter) -> BoxFuture<'a, Result<u64, VectorsError>> {
        Box::pin(self.count_all(filter))
    }
}

impl fmt::Debug for Qdrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Qdrant").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}
