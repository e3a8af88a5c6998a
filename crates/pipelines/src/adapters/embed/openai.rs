//! Embedding by a model behind an endpoint that speaks as OpenAI's does: LM Studio, Ollama,
//! llama.cpp, OpenRouter and many more.
//!
//! Decides what belongs into one request, whose fault a refusal is, and whether an answer can be
//! believed. A request that is refused for what is in it is cut in halves until the text that is to
//! blame stands alone; but first the endpoint is asked about a harmless word, because one that
//! refuses that has been set up wrongly, and no text is to blame. The same goes for a request over
//! which the endpoint breaks: if it does the harmless word, it is not away. What was answered
//! before something went wrong is kept.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::OnceLock;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::{EmbedError, Embedded, Embedder, normalised};
use crate::adapters::endpoint::{self, Endpoint, NotATarget, Refused};

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model, as the endpoint calls it.
    pub model: String,
    /// Raised when the model behind the name becomes another, so that everything is embedded again.
    pub version: String,
    /// The dimension to ask the model for. By default it is what its first answer has.
    pub dimension: Option<usize>,
    /// Texts in one request.
    pub batch_max: usize,
    /// Bytes of all texts in one request. A longer one is sent alone.
    pub batch_bytes_max: usize,
    pub endpoint: endpoint::Options,
}

impl Options {
    pub fn new(model: impl Into<String>) -> Options {
        Options {
            model: model.into(),
            version: "1".to_owned(),
            dimension: None,
            batch_max: 64,
            batch_bytes_max: 256 << 10,
            endpoint: endpoint::Options::default(),
        }
    }
}

/// A model behind an endpoint.
#[derive(Debug)]
pub struct OpenAi {
    endpoint: Endpoint,
    options: Options,
    /// The options' version, and the dimension if one is asked for: the same model makes another
    /// vector of the same text then.
    version: String,
    dimension: OnceLock<usize>,
}

/// A text that no model has a reason to refuse.
const HARMLESS: &str = "hay";

impl OpenAi {
    /// A model behind the endpoint with this base, such as `http://127.0.0.1:1234/v1`. Nothing is
    /// sent yet.
    pub fn new(base: &str, options: Options) -> Result<OpenAi, NotATarget> {
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix("/embeddings").unwrap_or(base);
        let endpoint = Endpoint::new(&format!("{base}/embeddings"), options.endpoint.clone())?;
        let dimension = options.dimension.map(OnceLock::from).unwrap_or_default();
        let version = match options.dimension {
            Some(asked) => format!("{}, dimension {asked}", options.version),
            None => options.version.clone(),
        };
        Ok(OpenAi { endpoint, options, version, dimension })
    }

    async fn embed_each(&self, texts: &[&str]) -> Vec<Embedded> {
        let blank = || Err(EmbedError::bad("there is nothing in it that could be embedded"));
        let mut all: Vec<Option<Embedded>> =
            texts.iter().map(|text| text.trim().is_empty().then(blank)).collect();
        let asked: Vec<usize> = (0..texts.len()).filter(|nth| all[*nth].is_none()).collect();
        let said: Vec<&str> = asked.iter().map(|nth| texts[*nth]).collect();
        let mut waiting = self.batches(&said);
        let mut is_sound = false;
        let failed = loop {
            let Some(batch) = waiting.pop_front() else {
                break None;
            };
            let why = match self.ask_surely(&said[batch.clone()], &mut is_sound).await {
                Ok(vectors) => {
                    for (nth, vector) in batch.zip(vectors) {
                        all[asked[nth]] = Some(vector);
                    }
                    continue;
                }
                Err(Unembedded::Failed(why)) => break Some(why),
                Err(Unembedded::Refused(why) | Unembedded::Broke(why)) => why,
            };
            if batch.len() == 1 {
                all[asked[batch.start]] = Some(Err(EmbedError::Bad { why }));
            } else {
                let middle = batch.start + batch.len() / 2;
                waiting.push_front(middle..batch.end);
                waiting.push_front(batch.start..middle);
            }
        };
        let failed = failed.unwrap_or_else(|| EmbedError::transient("it was not asked for"));
        all.into_iter().map(|one| one.unwrap_or_else(|| Err(failed.clone()))).collect()
    }

    /// What goes into each request.
    fn batches(&self, texts: &[&str]) -> VecDeque<Range<usize>> {
        let mut batches: VecDeque<Range<usize>> = VecDeque::new();
        let mut bytes = 0;
        for (nth, text) in texts.iter().enumerate() {
            bytes += text.len();
            match batches.back_mut() {
                Some(last)
                    if last.len() < self.options.batch_max
                        && bytes <= self.options.batch_bytes_max =>
                {
                    last.end = nth + 1;
                }
                _ => {
                    batches.push_back(nth..nth + 1);
                    bytes = text.len();
                }
            }
        }
        batches
    }

    /// Asks, and blames what is in the request only if the endpoint embeds anything at all. That a
    /// refusal is no mistake of ours is shown once; an endpoint that broke may be away by now, and
    /// one that broke over a single text is given a second chance, for it may have been away then.
    async fn ask_surely(
        &self,
        texts: &[&str],
        is_sound: &mut bool,
    ) -> Result<Vec<Embedded>, Unembedded> {
        let mut answer = self.ask(texts).await;
        if matches!(answer, Err(Unembedded::Broke(_))) {
            self.prove().await?;
            if texts.len() > 1 {
                return answer;
            }
            answer = self.ask(texts).await;
            if matches!(answer, Err(Unembedded::Broke(_))) {
                self.prove().await?;
            }
        }
        if matches!(answer, Err(Unembedded::Refused(_))) && !*is_sound {
            self.prove().await?;
            *is_sound = true;
        }
        answer
    }

    /// Whether the endpoint embeds anything at all.
    async fn prove(&self) -> Result<(), EmbedError> {
        match self.ask(&[HARMLESS]).await {
            Ok(_) => Ok(()),
            Err(Unembedded::Failed(why)) => Err(why),
            Err(Unembedded::Broke(why)) => Err(EmbedError::transient(why)),
            Err(Unembedded::Refused(why)) => {
                Err(EmbedError::transient(format!("it refuses every text: {why}")))
            }
        }
    }

    /// Asks once.
    async fn ask(&self, texts: &[&str]) -> Result<Vec<Embedded>, Unembedded> {
        let (model, dimensions) = (&*self.options.model, self.options.dimension);
        let body = serde_json::to_vec(&Ask { model, input: texts, dimensions });
        // Texts and a number: there is nothing in it that JSON cannot say.
        let body = body.map_err(|error| EmbedError::transient(error.to_string()))?;
        let reply = self.endpoint.post(body).await;
        let reply = reply.map_err(|error| EmbedError::transient(error.to_string()))?;
        if reply.status != 200 {
            let refused = self.endpoint.refused(&reply, "gives no vectors");
            return Err(match refused {
                // Who says when to come back knows that it is not the request's fault.
                Refused::Failed { why, retry_after_ms: None } if reply.status >= 500 => {
                    Unembedded::Broke(why)
                }
                refused => refused.into(),
            });
        }
        let nonsense =
            |why: Cow<'_, str>| EmbedError::transient(format!("{}: {why}", self.endpoint));
        let said = serde_json::from_slice(&reply.body);
        let said: Said = said.map_err(|error| {
            let why = format!("its answer holds no vectors: {error}");
            nonsense(self.endpoint.hide(&why).into())
        })?;
        let vectors = in_order(said, texts.len()).map_err(nonsense)?;
        self.learn(&vectors).map_err(nonsense)?;
        Ok(vectors.into_iter().map(normalised).collect())
    }

    /// Holds what an endpoint gives to what it was told or gave before.
    fn learn(&self, vectors: &[Vec<f32>]) -> Result<(), Cow<'static, str>> {
        for given in vectors.iter().map(Vec::len) {
            if given == 0 {
                return Err("it gave a vector without numbers".into());
            }
            let expected = *self.dimension.get_or_init(|| given);
            if given != expected {
                let why = format!("it gave {given} dimensions where {expected} were expected");
                return Err(why.into());
            }
        }
        Ok(())
    }
}

impl Embedder for OpenAi {
    fn name(&self) -> &str {
        &self.options.model
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn dimension(&self) -> Option<usize> {
        self.dimension.get().copied()
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>> {
        Box::pin(self.embed_each(texts))
    }
}

/// Why a request has no vectors.
enum Unembedded {
    /// Because of what is in it.
    Refused(String),
    /// The endpoint broke, perhaps over what is in it.
    Broke(String),
    Failed(EmbedError),
}

impl From<EmbedError> for Unembedded {
    fn from(error: EmbedError) -> Unembedded {
        Unembedded::Failed(error)
    }
}

impl From<Refused> for Unembedded {
    fn from(refused: Refused) -> Unembedded {
        match refused {
            Refused::Content(why) => Unembedded::Refused(why),
            Refused::Failed { why, retry_after_ms } => {
                Unembedded::Failed(EmbedError::Transient { why, retry_after_ms })
            }
        }
    }
}

#[derive(Serialize)]
struct Ask<'a> {
    model: &'a str,
    input: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    dimensions: Option<usize>,
}

#[derive(Deserialize)]
struct Said {
    data: Vec<One>,
}

#[derive(Deserialize)]
struct One {
    index: Option<usize>,
    /// What is not a number, JSON calls nothing.
    embedding: Vec<Option<f32>>,
}

/// The vectors in the order of their texts.
fn in_order(said: Said, texts: usize) -> Result<Vec<Vec<f32>>, Cow<'static, str>> {
    let given = said.data.len();
    if given != texts {
        return Err(format!("it gave {given} vectors for {texts} texts").into());
    }
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; texts];
    for (nth, one) in said.data.into_iter().enumerate() {
        let place = vectors.get_mut(one.index.unwrap_or(nth));
        let Some(place @ None) = place else {
            return Err("it gave vectors whose numbers are not those of the texts".into());
        };
        *place = Some(one.embedding.into_iter().map(|x| x.unwrap_or(f32::NAN)).collect());
    }
    // As many as there are places, and no two in one.
    Ok(vectors.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_hold_so_many_texts_and_so_many_bytes() {
        let mut options = Options::new("any");
        (options.batch_max, options.batch_bytes_max) = (3, 10);
        let model = OpenAi::new("http://localhost/v1", options).unwrap();
        for (lengths, expected) in [
            (&[][..], &[][..]),
            (&[1], &[1]),
            (&[1, 1, 1, 1], &[3, 1]),
            (&[5, 5, 1], &[2, 1]),
            (&[99, 1, 99, 99], &[1, 1, 1, 1]),
            (&[1, 99, 1, 1], &[1, 1, 2]),
        ] {
            let texts: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let batches = model.batches(&texts);
            let sizes: Vec<usize> = batches.iter().map(Range::len).collect();
            assert_eq!(sizes, expected, "{lengths:?}");
            assert!(batches.into_iter().flatten().eq(0..texts.len()), "{lengths:?}");
        }
    }

    #[test]
    fn a_base_may_end_as_people_write_it() {
        for base in ["http://h/v1", "http://h/v1/", "http://h/v1/embeddings"] {
            let model = OpenAi::new(base, Options::new("any")).unwrap();
            assert_eq!(model.endpoint.to_string(), "http://h/v1/embeddings");
        }
        assert!(OpenAi::new("localhost:1234", Options::new("any")).is_err());
    }

    /// After the setting was changed, vectors of the old length were remembered.
    #[test]
    fn another_dimension_is_another_version() {
        for (dimension, version) in [(None, "1"), (Some(256), "1, dimension 256")] {
            let options = Options { dimension, ..Options::new("any") };
            assert_eq!(OpenAi::new("http://h/v1", options).unwrap().version(), version);
        }
    }
}
