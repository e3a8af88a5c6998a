//! A real sentence model in a real ONNX Runtime.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::Deserialize;
use windrow_pipelines::adapters::embed::onnx::{NotAModel, Onnx, Options};
use windrow_pipelines::adapters::embed::{EmbedError, Embedder as _, embed_all};
use windrow_pipelines::text::chunk::{Context, Limits, chunk};
use windrow_pipelines::text::{html, plain};

/// Where the files are: where the variable points, or where `cargo xtask test` puts them.
fn files() -> PathBuf {
    if let Some(named) = std::env::var_os("WINDROW_ONNX") {
        return named.into();
    }
    let program = std::env::current_exe().unwrap();
    let found = program.ancestors().map(|dir| dir.join("tools/onnx")).find(|dir| dir.is_dir());
    found.expect("`cargo xtask test` installs a model; or set WINDROW_ONNX to a directory with one")
}

fn options() -> Options {
    Options::new(files(), files().join("libonnxruntime.so"))
}

fn model() -> &'static Onnx {
    static MODEL: OnceLock<Onnx> = OnceLock::new();
    MODEL.get_or_init(|| Onnx::open(options()).unwrap())
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(x, y)| x * y).sum()
}

#[tokio::test]
async fn sentences_of_one_meaning_lie_nearer_than_others() {
    let model = model();
    assert_eq!((model.name(), model.dimension()), ("all-MiniLM-L6-v2", Some(384)));
    let vector = |text: &'static str| async move {
        let vector = embed_all(model, &[text]).await.unwrap().remove(0);
        assert_eq!(vector.len(), 384);
        assert!((cosine(&vector, &vector) - 1.0).abs() < 1e-4, "of length one");
        vector
    };
    for (one, same, other) in [
        (
            "The physician prescribed a medicine against the fever.",
            "A doctor gave him drugs to bring his temperature down.",
            "The ferry leaves the harbour at noon.",
        ),
        ("How do I cook rice?", "Boil the grains in salted water.", "The bank raised its rates."),
        ("A puppy is asleep.", "The young dog naps.", "Parliament passed the budget."),
    ] {
        let (one, same, other) = (vector(one).await, vector(same).await, vector(other).await);
        let (near, far) = (cosine(&one, &same), cosine(&one, &other));
        assert!(near > far + 0.2, "{near} {far}");
    }
}

/// Values that another program computes of the same files, with the mean taken by hand.
#[tokio::test]
async fn a_vector_is_what_others_make_of_it() {
    let vector = embed_all(model(), &["Bees fly at nine degrees and above."]).await.unwrap();
    for (number, expected) in vector[0].iter().zip(EXPECTED) {
        assert!((number - expected).abs() < 1e-3, "{number} {expected}");
    }
}

const EXPECTED: [f32; 6] = [0.078154, -0.006679, 0.031756, 0.021754, -0.033646, 0.012084];

#[tokio::test]
async fn a_text_has_the_same_vector_alone_and_among_others() {
    let long = "The combs are sealed in July and the honey is taken out of the hive. ".repeat(9);
    let texts: Vec<String> = (0..70)
        .map(|n| match n % 3 {
            0 => format!("Number {n}."),
            1 => format!("The {n}th house in the street was painted last summer."),
            _ => format!("{n}: {long}"),
        })
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let together = embed_all(model(), &texts).await.unwrap();
    for nth in [0, 1, 2, 30, 31, 32, 67, 68, 69] {
        let alone = embed_all(model(), &[texts[nth]]).await.unwrap().remove(0);
        let furthest = alone.iter().zip(&together[nth]).map(|(x, y)| (x - y).abs());
        let furthest = furthest.fold(0.0, f32::max);
        assert!(furthest < 1e-5, "{nth}: {furthest}");
    }
    for (nth, one) in together.iter().enumerate() {
        let same = together.iter().filter(|other| cosine(one, other) > 0.99999).count();
        assert_eq!(same, 1, "{nth} is not like another");
    }
}

#[tokio::test]
async fn what_comes_after_so_many_tokens_is_not_seen() {
    let begins = "hay ".repeat(254);
    let longer = format!("{begins} and then something else entirely, about taxes");
    let shorter = "hay ".repeat(253) + "taxes";
    let vectors = embed_all(model(), &[&begins, &longer, &shorter]).await.unwrap();
    assert!(cosine(&vectors[0], &vectors[1]) > 0.99999);
    assert!(cosine(&vectors[0], &vectors[2]) < 0.9999);
}

#[tokio::test]
async fn a_text_with_nothing_in_it_takes_no_other_with_it() {
    let all = model().embed(&["hay", " \n", "", "straw"]).await;
    assert!(all[0].is_ok() && all[3].is_ok(), "{all:?}");
    for nothing in &all[1..3] {
        assert!(matches!(nothing, Err(EmbedError::Bad { .. })), "{nothing:?}");
    }
    assert_eq!(model().embed(&[]).await, []);
}

/// While the model computes, the only thread of the runtime does other things.
#[tokio::test(flavor = "current_thread")]
async fn nobody_waits_for_the_model() {
    model();
    let text = "Some words about hay that is cut, dried and gathered in rows. ".repeat(20);
    let texts = vec![&*text; 24];
    let mut turns = 0_u64;
    let counting = async {
        loop {
            turns += 1;
            tokio::task::yield_now().await;
        }
    };
    let embedded = tokio::select! {
        embedded = model().embed(&texts) => embedded,
        () = counting => unreachable!("it counts for ever"),
    };
    assert_eq!(embedded.len(), 24);
    assert!(turns > 1_000, "{turns}");
}

#[test]
fn a_version_follows_from_the_files_and_from_what_is_seen_of_a_text() {
    let again = Onnx::open(options()).unwrap();
    assert_eq!(again.version(), model().version());
    let shorter = Onnx::open(Options { tokens_max: 64, threads: Some(1), ..options() }).unwrap();
    assert_ne!(shorter.version(), model().version());
}

/// A directory of its own, which goes with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let dir = std::env::temp_dir().join(format!("windrow-onnx-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Scratch(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left_behind_at_worst = std::fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn refused(options: Options, parts: &[&str]) -> NotAModel {
    let error = Onnx::open(options).unwrap_err();
    for part in parts {
        assert!(error.to_string().contains(part), "{part} in {error}");
    }
    error
}

#[test]
fn what_is_missing_or_unfit_is_said_with_what_to_do() {
    model();
    let scratch = Scratch::new("missing");
    let dir = &scratch.0;
    let here = |options: Options| Options { model: dir.clone(), ..options };
    let path = dir.display().to_string();
    refused(here(options()), &["no model at", &path, "model.onnx and tokenizer.json"]);
    std::fs::copy(files().join("model.onnx"), dir.join("model.onnx")).unwrap();
    refused(here(options()), &["no tokenizer at", "tokenizer.json", "into one directory"]);
    std::fs::write(dir.join("tokenizer.json"), "{}").unwrap();
    refused(here(options()), &["tokenizer.json cannot be used", "all-MiniLM-L6-v2"]);
    std::fs::copy(files().join("tokenizer.json"), dir.join("tokenizer.json")).unwrap();
    let no_library = Options { runtime: dir.join("libonnxruntime.so"), ..here(options()) };
    refused(no_library, &["no ONNX Runtime at", "install ONNX Runtime 1.24", "libonnxruntime.so"]);
    std::fs::write(dir.join("model.onnx"), "not a model").unwrap();
    refused(here(options()), &["model.onnx cannot be used"]);
    // One library for all models of a process.
    let copy = dir.join("other.so");
    std::fs::copy(files().join("libonnxruntime.so"), &copy).unwrap();
    let other = refused(Options { runtime: copy, ..options() }, &["can use no other"]);
    assert!(matches!(other, NotAModel::OtherRuntime { .. }), "{other:?}");
}

/// In a process of its own, because a library that was loaded stays.
#[test]
fn a_file_that_is_no_library_is_refused_and_a_good_one_after_it_is_taken() {
    const CHILD: &str = "WINDROW_ONNX_CHILD";
    if std::env::var_os(CHILD).is_none() {
        let name = "a_file_that_is_no_library_is_refused_and_a_good_one_after_it_is_taken";
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let output = child.args(["--exact", name]).env(CHILD, "1").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    let scratch = Scratch::new("library");
    let text = scratch.0.join("libonnxruntime.so");
    std::fs::write(&text, "not a library").unwrap();
    let bad = Options { runtime: text, ..options() };
    let error = refused(bad, &["cannot be loaded", "libonnxruntime.so of 1.24 or newer"]);
    assert!(matches!(error, NotAModel::Runtime { .. }), "{error:?}");
    assert!(Onnx::open(options()).is_ok());
}

#[derive(Deserialize)]
struct Question {
    question: String,
    file: String,
    page: usize,
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Every page of the inbox, by its file and number: what PDFs and pictures say is beside them.
fn pages() -> Vec<(String, usize, String)> {
    let mut pages = Vec::new();
    for entry in std::fs::read_dir(examples().join("inbox")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let said = examples().join("inbox-pages").join(format!("{name}.md"));
        let texts: Vec<String> = if let Ok(said) = std::fs::read_to_string(said) {
            said.split("<!-- page -->\n").map(str::to_owned).collect()
        } else if name.ends_with(".html") {
            let text = plain::decode(&std::fs::read(&path).unwrap()).unwrap().text;
            vec![html::read(&text).markdown]
        } else if let Ok(decoded) = plain::decode(&std::fs::read(&path).unwrap()) {
            plain::pages(&decoded.text)
        } else {
            continue;
        };
        pages
            .extend(texts.into_iter().enumerate().map(|(nth, text)| (name.clone(), nth + 1, text)));
    }
    pages
}

#[tokio::test]
async fn ten_questions_about_the_inbox_find_their_pages_by_meaning_alone() {
    let limits = Limits { max_tokens: 256, ..Limits::default() };
    let mut chunks = Vec::new();
    for (file, page, text) in pages() {
        let context = Context { file_name: &file, page: page as u32, class: None };
        let cut = chunk(&text, &context, &limits);
        chunks.extend(cut.into_iter().map(|chunk| (file.clone(), page, chunk.text)));
    }
    assert!(chunks.len() > 30, "{}", chunks.len());
    let texts: Vec<&str> = chunks.iter().map(|(_, _, text)| &**text).collect();
    let vectors = embed_all(model(), &texts).await.unwrap();
    let questions = std::fs::read(examples().join("inbox-questions.json")).unwrap();
    let questions: Vec<Question> = serde_json::from_slice(&questions).unwrap();
    let mut found = 0;
    for Question { question, file, page } in &questions {
        let asked = embed_all(model(), &[question]).await.unwrap().remove(0);
        let mut ranked: Vec<usize> = (0..chunks.len()).collect();
        let score = |nth: &usize| cosine(&asked, &vectors[*nth]);
        ranked.sort_by(|one, other| score(other).total_cmp(&score(one)));
        let is_it = |nth: &usize| (&chunks[*nth].0, &chunks[*nth].1) == (file, page);
        let rank = ranked.iter().position(is_it);
        found += usize::from(rank.is_some_and(|rank| rank < 5));
        eprintln!("{rank:?} of {}: {question}", chunks.len());
    }
    assert!(found * 10 >= questions.len() * 9, "{found} of {}", questions.len());
}
