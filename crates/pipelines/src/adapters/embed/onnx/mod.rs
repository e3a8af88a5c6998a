//! Embedding by a model on this machine, with ONNX Runtime: all-MiniLM-L6-v2 and its like.
//!
//! Decides which texts are computed together, and makes one vector of what the model says of each
//! token: their mean, of length one. Computes in a thread of its own, one batch after the other, so
//! that it holds up nobody. Needs files that whoever runs it brings, and nothing of the network.
//! Leaves out what a model was trained for: one that wants a word before its texts, or another
//! mean, is not for this.

mod model;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sha2::{Digest as _, Sha256};
use tokenizers::{Tokenizer, TruncationParams};
use tokio::sync::Mutex;

use self::model::Model;
use super::{EmbedError, Embedded, Embedder, normalised};

/// What a directory with a model holds.
const MODEL: &str = "model.onnx";
const TOKENIZER: &str = "tokenizer.json";

/// Tokens that are computed together at most, unless one text has more. Texts that are short are
/// twice as fast together; with long ones nothing is won.
const TOGETHER_MAX: usize = 1_024;

/// A text to see what a model makes of one.
const HARMLESS: &str = "hay";

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directory with `model.onnx` and `tokenizer.json`.
    pub model: PathBuf,
    /// The library of ONNX Runtime, such as `/usr/lib/libonnxruntime.so`. All models of a process
    /// use the same.
    pub runtime: PathBuf,
    /// What the model is called.
    pub name: String,
    /// Of a longer text, what comes after so many tokens is not seen.
    pub tokens_max: usize,
    /// Texts that are computed together.
    pub batch_max: usize,
    /// Threads that compute one batch. None leaves it to ONNX Runtime: one for each core.
    pub threads: Option<usize>,
}

impl Options {
    /// As all-MiniLM-L6-v2 wants it.
    pub fn new(model: impl Into<PathBuf>, runtime: impl Into<PathBuf>) -> Options {
        Options {
            model: model.into(),
            runtime: runtime.into(),
            name: "all-MiniLM-L6-v2".to_owned(),
            tokens_max: 256,
            batch_max: 32,
            threads: None,
        }
    }
}

/// Why a model cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAModel {
    #[error("there is no {what} at {}: {remedy}", path.display())]
    Missing { what: &'static str, path: PathBuf, remedy: &'static str },
    #[error("ONNX Runtime cannot be loaded: {why}; name a libonnxruntime.so of 1.24 or newer")]
    Runtime { why: String },
    #[error(
        "this process uses the ONNX Runtime at {}, and can use no other: name the same for all \
         models", used.display()
    )]
    OtherRuntime { used: PathBuf },
    #[error("{} cannot be used: {why}; take the files of all-MiniLM-L6-v2", path.display())]
    Unfit { path: PathBuf, why: String },
}

/// A model on this machine.
#[derive(Debug)]
pub struct Onnx {
    name: String,
    version: String,
    dimension: usize,
    batch_max: usize,
    computing: Arc<Mutex<Computing>>,
}

/// What computes. One at a time.
#[derive(Debug)]
struct Computing {
    tokenizer: Tokenizer,
    model: Model,
}

/// The tokens of a text.
type Tokens = Vec<u32>;

impl Onnx {
    /// Loads a model and tries it once. Reads files and computes: not for a thread that others wait
    /// for.
    pub fn open(options: Options) -> Result<Onnx, NotAModel> {
        let (model, tokenizer) = (options.model.join(MODEL), options.model.join(TOKENIZER));
        let remedy = "put model.onnx and tokenizer.json of all-MiniLM-L6-v2 into one directory";
        let model_bytes = read(&model, "model", remedy)?;
        let tokenizer_bytes = read(&tokenizer, "tokenizer", remedy)?;
        let library = &options.runtime;
        if !library.is_file() {
            let remedy = "install ONNX Runtime 1.24 or newer, and name its libonnxruntime.so";
            let path = library.clone();
            return Err(NotAModel::Missing { what: "ONNX Runtime", path, remedy });
        }
        let unfit = |path: &Path, why: String| NotAModel::Unfit { path: path.to_owned(), why };
        let tokenizer = tokenizing(&tokenizer_bytes, options.tokens_max.max(1))
            .map_err(|why| unfit(&tokenizer, why))?;
        let environment = model::environment(library)?;
        let model = Model::load(&environment, &model_bytes, options.threads)
            .map_err(|why| unfit(&model, why))?;
        let mut sum = Sha256::new();
        for part in [&model_bytes, &tokenizer_bytes] {
            sum.update((part.len() as u64).to_be_bytes());
            sum.update(part);
        }
        sum.update((options.tokens_max as u64).to_be_bytes());
        let version = sum.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        let mut computing = Computing { tokenizer, model };
        let tried = computing.embed(&[HARMLESS], 1).pop();
        let dimension = match tried {
            Some(Ok(vector)) => vector.len(),
            Some(Err(error)) => return Err(unfit(&options.model, error.to_string())),
            None => return Err(unfit(&options.model, "it says nothing".into())),
        };
        let (name, batch_max) = (options.name, options.batch_max.max(1));
        let computing = Arc::new(Mutex::new(computing));
        Ok(Onnx { name, version, dimension, batch_max, computing })
    }

    async fn embed_each(&self, texts: &[&str]) -> Vec<Embedded> {
        if texts.is_empty() {
            return Vec::new();
        }
        // Waited for here, and not in threads of which there are only so many.
        let mut computing = Arc::clone(&self.computing).lock_owned().await;
        let owned: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let batch_max = self.batch_max;
        let embed = move || {
            let texts: Vec<&str> = owned.iter().map(String::as_str).collect();
            computing.embed(&texts, batch_max)
        };
        match tokio::task::spawn_blocking(embed).await {
            Ok(all) => all,
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => vec![Err(EmbedError::transient("the program is ending")); texts.len()],
            },
        }
    }
}

impl Computing {
    /// A vector of each text, or why there is none.
    fn embed(&mut self, texts: &[&str], batch_max: usize) -> Vec<Embedded> {
        let mut all: Vec<Embedded> = Vec::with_capacity(texts.len());
        let mut tokens: Vec<(usize, Tokens)> = Vec::new();
        for (nth, text) in texts.iter().enumerate() {
            match self.tokens(text) {
                Ok(found) => {
                    tokens.push((nth, found));
                    all.push(Err(EmbedError::transient("it was not computed")));
                }
                Err(error) => all.push(Err(error)),
            }
        }
        // What is about as long goes together, because all of a batch are as long as its longest.
        tokens.sort_by_key(|(_, tokens)| tokens.len());
        for batch in batches(&tokens, batch_max) {
            let each: Vec<&[u32]> = batch.iter().map(|(_, tokens)| tokens.as_slice()).collect();
            let made = self.model.means(&each);
            for (at, (nth, _)) in batch.iter().enumerate() {
                all[*nth] = match &made {
                    Ok(means) => normalised(means[at].clone()),
                    Err(why) => Err(EmbedError::transient(format!("the model failed: {why}"))),
                };
            }
        }
        all
    }

    fn tokens(&self, text: &str) -> Result<Tokens, EmbedError> {
        if text.trim().is_empty() {
            return Err(EmbedError::bad("there is nothing in it that could be embedded"));
        }
        let encoded = self.tokenizer.encode(text, true);
        let encoded = encoded.map_err(|error| EmbedError::bad(error.to_string()))?;
        match encoded.get_ids() {
            [] => Err(EmbedError::bad("the tokenizer makes nothing of it")),
            ids => Ok(ids.to_vec()),
        }
    }
}

/// A text of a batch is filled up to no more than twice this, or twice its own tokens.
const SHORT: usize = 16;

/// What is computed together: so many texts, and so many tokens with those that only fill up.
fn batches<T>(sorted: &[(T, Tokens)], batch_max: usize) -> Vec<&[(T, Tokens)]> {
    let mut batches = Vec::new();
    let mut rest = sorted;
    while !rest.is_empty() {
        // The one that comes last is the longest.
        let shortest = rest[0].1.len();
        let fits = |many: &usize| {
            let longest = rest[*many - 1].1.len();
            many * longest <= TOGETHER_MAX && longest <= shortest.max(SHORT) * 2
        };
        let many = (1..=rest.len().min(batch_max)).take_while(fits).last().unwrap_or(1);
        let (batch, others) = rest.split_at(many);
        batches.push(batch);
        rest = others;
    }
    batches
}

fn tokenizing(bytes: &[u8], tokens_max: usize) -> Result<Tokenizer, String> {
    let mut tokenizer = Tokenizer::from_bytes(bytes).map_err(|error| error.to_string())?;
    let cut = TruncationParams { max_length: tokens_max, ..TruncationParams::default() };
    tokenizer.with_truncation(Some(cut)).map_err(|error| error.to_string())?;
    tokenizer.with_padding(None);
    Ok(tokenizer)
}

fn read(path: &Path, what: &'static str, remedy: &'static str) -> Result<Vec<u8>, NotAModel> {
    std::fs::read(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NotAModel::Missing { what, path: path.to_owned(), remedy },
        _ => NotAModel::Unfit { path: path.to_owned(), why: error.to_string() },
    })
}

impl Embedder for Onnx {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn dimension(&self) -> Option<usize> {
        Some(self.dimension)
    }

    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>> {
        Box::pin(self.embed_each(texts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_so_many_texts_and_so_many_tokens() {
        for (lengths, batch_max, expected) in [
            (&[][..], 4, &[][..]),
            (&[3, 3, 3], 2, &[2, 1]),
            (&[100, 512, 512], 9, &[1, 2]),
            (&[512, 512, 513], 9, &[2, 1]),
            (&[5_000], 9, &[1]),
            (&[8; 40], 32, &[32, 8]),
            (&[2, 9, 32, 33, 66, 67], 9, &[3, 2, 1]),
        ] {
            let tokens: Vec<((), Tokens)> =
                lengths.iter().map(|length| ((), vec![0; *length])).collect();
            let sizes: Vec<usize> = batches(&tokens, batch_max).iter().map(|b| b.len()).collect();
            assert_eq!(sizes, expected, "{lengths:?}");
        }
    }
}
