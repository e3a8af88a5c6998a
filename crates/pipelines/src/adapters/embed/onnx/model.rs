//! A model in ONNX Runtime: tokens in, the mean of what it says of each out.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use ort::environment::Environment;
use ort::session::{Session, SessionInputValue};
use ort::value::Tensor;
use parking_lot::Mutex;

use super::NotAModel;

/// What a model is told: the tokens, which of them count, and to which of two texts they belong.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];

/// What it says of each token, by any of the names that it goes by.
const OUTPUTS: [&str; 2] = ["last_hidden_state", "token_embeddings"];

/// A process has one library and one environment of it, until it ends.
static LOADED: Mutex<Option<(PathBuf, Environment)>> = Mutex::new(None);

/// The environment that models live in, of this library.
pub(super) fn environment(library: &Path) -> Result<Environment, NotAModel> {
    let mut loaded = LOADED.lock();
    if let Some((used, environment)) = &*loaded {
        return match used == library {
            true => Ok(environment.clone()),
            false => Err(NotAModel::OtherRuntime { used: used.clone() }),
        };
    }
    let failed = |why: String| NotAModel::Runtime { why };
    let builder = ort::init_from(library).map_err(|error| failed(error.to_string()))?;
    let built = builder.with_name("windrow").with_telemetry(false).build();
    let environment = built.map_err(|error| failed(error.to_string()))?;
    *loaded = Some((library.to_owned(), environment.clone()));
    Ok(environment)
}

/// A model that was loaded.
pub(super) struct Model {
    session: Session,
    /// Those of the inputs that it wants.
    inputs: Vec<&'static str>,
    output: String,
}

impl Model {
    /// Loads a model, and sees whether it is one of the kind that is known here.
    pub(super) fn load(
        environment: &Environment,
        bytes: &[u8],
        threads: Option<usize>,
    ) -> Result<Model, String> {
        let session = session(environment, bytes, threads)?;
        let mut inputs = Vec::new();
        for input in session.inputs() {
            let known = INPUTS.iter().find(|known| **known == input.name());
            inputs.push(*known.ok_or_else(|| format!("it wants {:?}", input.name()))?);
        }
        let named = |name: &&str| session.outputs().iter().any(|output| output.name() == *name);
        let output = OUTPUTS.iter().find(|name| named(name));
        let output = output.ok_or_else(|| format!("it gives none of {}", OUTPUTS.join(", ")))?;
        let output = (*output).to_owned();
        Ok(Model { session, inputs, output })
    }

    /// For each text the mean of what is said of its tokens.
    pub(super) fn means(&mut self, texts: &[&[u32]]) -> Result<Vec<Vec<f32>>, String> {
        let longest = texts.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let inputs = self.inputs.iter().map(|input| {
            let tensor =
                Tensor::from_array(([texts.len(), longest], filled(input, texts, longest)));
            let tensor = tensor.map_err(|error| error.to_string())?;
            Ok((Cow::Borrowed(*input), SessionInputValue::from(tensor)))
        });
        let inputs: Vec<_> = inputs.collect::<Result<_, String>>()?;
        let outputs = self.session.run(inputs).map_err(|error| error.to_string())?;
        let said = outputs.get(&self.output).ok_or("it says nothing")?;
        let (shape, said) = said.try_extract_tensor::<f32>().map_err(|error| error.to_string())?;
        let [many, tokens, dimension] = shape[..] else {
            return Err(format!("it gives {} numbers in {shape:?}", said.len()));
        };
        let expected = (texts.len() as i64, longest as i64);
        if (many, tokens) != expected || dimension < 1 {
            return Err(format!("it gives {shape:?} for {expected:?} tokens"));
        }
        let dimension = dimension as usize;
        let of_text = |(nth, tokens): (usize, &&[u32])| {
            let begins = nth * longest * dimension;
            mean(&said[begins..begins + tokens.len() * dimension], dimension)
        };
        Ok(texts.iter().enumerate().map(of_text).collect())
    }
}

fn session(
    environment: &Environment,
    bytes: &[u8],
    threads: Option<usize>,
) -> Result<Session, String> {
    let builder = Session::builder(environment).map_err(|error| error.to_string())?;
    // Threads that have nothing to do sleep: there is a server beside it.
    let builder = builder.with_intra_op_spinning(false).map_err(|error| error.to_string())?;
    let mut builder = match threads {
        Some(threads) => {
            builder.with_intra_threads(threads.max(1)).map_err(|error| error.to_string())?
        }
        None => builder,
    };
    builder.commit_from_memory(bytes).map_err(|error| error.to_string())
}

/// One input for all texts: what is shorter than the longest ends with what does not count.
fn filled(input: &str, texts: &[&[u32]], longest: usize) -> Vec<i64> {
    let mut all = Vec::with_capacity(texts.len() * longest);
    for tokens in texts {
        let ends = all.len() + longest;
        match input {
            "input_ids" => all.extend(tokens.iter().map(|token| i64::from(*token))),
            "attention_mask" => all.extend(std::iter::repeat_n(1, tokens.len())),
            // All of it is the first text.
            _ => {}
        }
        all.resize(ends, 0);
    }
    all
}

/// The mean of rows of so many numbers.
fn mean(rows: &[f32], dimension: usize) -> Vec<f32> {
    let mut sums = vec![0.0_f32; dimension];
    let mut count = 0.0;
    for row in rows.chunks_exact(dimension) {
        count += 1.0;
        for (sum, number) in sums.iter_mut().zip(row) {
            *sum += number;
        }
    }
    sums.iter().map(|sum| sum / count).collect()
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fills_up_a_text_does_not_count() {
        let texts: [&[u32]; 2] = [&[101, 7, 102], &[101]];
        for (input, expected) in [
            ("input_ids", [101, 7, 102, 101, 0, 0]),
            ("attention_mask", [1, 1, 1, 1, 0, 0]),
            ("token_type_ids", [0; 6]),
        ] {
            assert_eq!(filled(input, &texts, 3), expected, "{input}");
        }
    }

    #[test]
    fn a_mean_is_taken_number_by_number() {
        assert_eq!(mean(&[1.0, 2.0, 3.0, 6.0], 2), [2.0, 4.0]);
        assert_eq!(mean(&[5.0, -1.0], 2), [5.0, -1.0]);
    }
}
