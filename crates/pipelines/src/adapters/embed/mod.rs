//! Embedding: a text becomes a vector, and texts about the same thing become vectors that lie near
//! each other.
//!
//! `hashed.rs` is built in and needs nothing; `openai.rs` asks a model behind an endpoint; `onnx/`
//! runs one on this machine, where the feature of that name is on. Whatever made it, a vector that
//! leaves here has length one and holds numbers only. Leaves out remembering what was embedded
//! before, which is the pipeline's.

pub mod hashed;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod openai;
#[cfg(test)]
mod passages;
mod words;

use std::fmt;

use futures_util::future::BoxFuture;

/// What became of one text: its vector, of length one, or why there is none.
pub type Embedded = Result<Vec<f32>, EmbedError>;

/// Something that makes vectors of texts.
pub trait Embedder: fmt::Debug + Send + Sync {
    /// What it is, in a word that stays the same while its vectors can be compared.
    fn name(&self) -> &str;

    /// What its vectors are made by: with another version they must be made again.
    fn version(&self) -> &str;

    /// How many numbers a vector has. None until an endpoint that was not told has answered once.
    fn dimension(&self) -> Option<usize>;

    /// Whether to make a vector costs more than to remember it.
    fn is_paid(&self) -> bool {
        true
    }

    /// Makes a vector of each text; answers for each, in their order. One text that cannot be
    /// embedded takes none of the others with it, so that nothing has to be paid for twice.
    fn embed<'a>(&'a self, texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>>;
}

/// Why a text has no vector.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EmbedError {
    /// It is not the text's fault: try again.
    #[error("{why}")]
    Transient {
        why: String,
        /// How long the endpoint asks to be left alone.
        retry_after_ms: Option<u64>,
    },
    /// This text never works.
    #[error("{why}")]
    Bad { why: String },
}

impl EmbedError {
    fn transient(why: impl Into<String>) -> EmbedError {
        EmbedError::Transient { why: why.into(), retry_after_ms: None }
    }

    fn bad(why: impl Into<String>) -> EmbedError {
        EmbedError::Bad { why: why.into() }
    }
}

/// All vectors, for who has no use for some of them: a query, or a batch that is one thing. What is
/// bad is said before what may pass.
pub async fn embed_all(
    embedder: &dyn Embedder,
    texts: &[&str],
) -> Result<Vec<Vec<f32>>, EmbedError> {
    let all = embedder.embed(texts).await;
    assert_eq!(all.len(), texts.len(), "an embedder answers for every text");
    let is_bad = |one: &&Embedded| matches!(one, Err(EmbedError::Bad { .. }));
    if let Some(Err(bad)) = all.iter().find(is_bad) {
        return Err(bad.clone());
    }
    all.into_iter().collect()
}

/// An embedder whose vectors do not belong into a collection.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "collection {collection:?} holds vectors of {holds} dimensions and {embedder:?} makes {makes}; \
     put its documents into another collection, or choose the embedder that it was made with"
)]
pub struct Misfit {
    pub collection: String,
    pub holds: usize,
    pub embedder: String,
    pub makes: usize,
}

/// Whether an embedder's vectors belong into a collection that holds vectors of this dimension. One
/// that has not said its dimension yet does, until it has.
pub fn fits(embedder: &dyn Embedder, collection: &str, holds: usize) -> Result<(), Misfit> {
    match embedder.dimension() {
        Some(makes) if makes != holds => {
            let (collection, embedder) = (collection.to_owned(), embedder.name().to_owned());
            Err(Misfit { collection, holds, embedder, makes })
        }
        _ => Ok(()),
    }
}

/// A vector of length one in the same direction.
fn normalised(mut vector: Vec<f32>) -> Embedded {
    if vector.iter().any(|x| !x.is_finite()) {
        return Err(EmbedError::bad("its vector holds something that is not a number"));
    }
    let square: f64 = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum();
    if square == 0.0 {
        return Err(EmbedError::bad("its vector points nowhere: all of it is zero"));
    }
    let length = square.sqrt();
    for x in &mut vector {
        *x = (f64::from(*x) / length) as f32;
    }
    Ok(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Says what it was told to say.
    #[derive(Debug)]
    struct Scripted(Vec<Embedded>, Option<usize>);

    impl Embedder for Scripted {
        fn name(&self) -> &str {
            "scripted"
        }

        fn version(&self) -> &str {
            "1"
        }

        fn dimension(&self) -> Option<usize> {
            self.1
        }

        fn embed<'a>(&'a self, _texts: &'a [&'a str]) -> BoxFuture<'a, Vec<Embedded>> {
            Box::pin(std::future::ready(self.0.clone()))
        }
    }

    #[test]
    fn a_vector_keeps_its_direction_and_gets_length_one() {
        assert_eq!(normalised(vec![3.0, 4.0]), Ok(vec![0.6, 0.8]));
        // Squares of these do not fit into the vector's own numbers.
        assert_eq!(normalised(vec![0.0, 3e30]), Ok(vec![0.0, 1.0]));
        assert_eq!(normalised(vec![-2e-30]), Ok(vec![-1.0]));
    }

    #[test]
    fn a_vector_without_direction_is_bad() {
        for (vector, why) in [
            (vec![], "points nowhere"),
            (vec![0.0, -0.0], "points nowhere"),
            (vec![1.0, f32::NAN], "not a number"),
            (vec![f32::INFINITY, 1.0], "not a number"),
        ] {
            let error = normalised(vector.clone()).expect_err("no direction");
            assert!(matches!(error, EmbedError::Bad { .. }), "{vector:?}: {error:?}");
            assert!(error.to_string().contains(why), "{vector:?}: {error}");
        }
    }

    #[test]
    fn an_embedder_of_another_dimension_is_told_what_the_collection_holds() {
        let other = Scripted(Vec::new(), Some(384));
        assert_eq!(fits(&other, "papers", 384), Ok(()));
        assert_eq!(fits(&Scripted(Vec::new(), None), "papers", 384), Ok(()));
        let misfit = fits(&other, "papers", 768).expect_err("another dimension").to_string();
        for part in ["\"papers\"", "768", "\"scripted\"", "384", "another collection"] {
            assert!(misfit.contains(part), "{misfit}");
        }
    }

    #[tokio::test]
    async fn all_or_nothing_says_first_what_will_never_work() {
        let (late, bad) = (EmbedError::transient("later"), EmbedError::bad("never"));
        let two = [Ok(vec![1.0]), Ok(vec![-1.0])];
        for (answers, expected) in [
            (two.to_vec(), Ok(vec![vec![1.0], vec![-1.0]])),
            (vec![Err(late.clone()), Err(bad.clone())], Err(bad)),
            (vec![Ok(vec![1.0]), Err(late.clone())], Err(late)),
        ] {
            let embedder = Scripted(answers, None);
            assert_eq!(embed_all(&embedder, &["a", "b"]).await, expected);
        }
    }
}
