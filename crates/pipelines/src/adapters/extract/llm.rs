//! Extracting by a model behind an endpoint that speaks as OpenAI's does.
//!
//! Decides what is asked, whose fault a refusal is, and whether an answer can be used. A model that
//! breaks the rules is shown its answer and what is wrong with it once; then the text is given up.
//! An endpoint that refuses a text is asked about a harmless one first, because one that refuses
//! that as well has been set up wrongly, and no text is to blame.

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::kept::{Limits, clean};
use super::{Context, ExtractError, Extracted, Extractor, answer, prompt};
use crate::adapters::endpoint::{self, Chat, Endpoint, NotATarget, Refused};
use crate::catalog::normalised;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// The model, as the endpoint calls it.
    pub model: String,
    /// Raised when the model behind the name becomes another, so that everything is read again.
    pub version: String,
    /// What an entity may be. What is none of these is `other`.
    pub kinds: Vec<String>,
    pub limits: Limits,
    /// How freely the model may write. None for models that let nobody choose.
    pub temperature: Option<f32>,
    /// The most tokens of an answer. None for what the endpoint has as its own bound.
    pub tokens_max: Option<u32>,
    pub endpoint: endpoint::Options,
}

const KINDS: [&str; 9] = [
    "person",
    "organisation",
    "place",
    "event",
    "product",
    "technology",
    "document",
    "law",
    "concept",
];

/// A model takes its time, and writes no book.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(180);
const ANSWER_BYTES_MAX: usize = 4 << 20;

impl Options {
    pub fn new(model: impl Into<String>) -> Options {
        let endpoint = endpoint::Options {
            within: WITHIN,
            answer_max: ANSWER_BYTES_MAX,
            ..endpoint::Options::default()
        };
        Options {
            model: model.into(),
            version: "1".to_owned(),
            kinds: KINDS.map(str::to_owned).to_vec(),
            limits: Limits::default(),
            temperature: Some(0.0),
            tokens_max: None,
            endpoint,
        }
    }
}

/// A model behind an endpoint.
#[derive(Debug)]
pub struct Llm {
    endpoint: Endpoint,
    options: Options,
    version: String,
}

/// A text that no model has a reason to refuse.
const HARMLESS: &str = "Hay is dried grass.";

/// Of an answer that breaks the rules, the model is shown so much.
const SHOWN_BYTES_MAX: usize = 32 << 10;

impl Llm {
    /// A model behind the endpoint with this base, such as `http://127.0.0.1:1234/v1`. Nothing is
    /// sent yet.
    pub fn new(base: &str, mut options: Options) -> Result<Llm, NotATarget> {
        let base = base.trim_end_matches('/');
        let base = base.strip_suffix("/chat/completions").unwrap_or(base);
        let url = format!("{base}/chat/completions");
        let endpoint = Endpoint::new(&url, options.endpoint.clone())?;
        if !options.kinds.iter().any(|kind| kind == prompt::OTHER) {
            options.kinds.push(prompt::OTHER.to_owned());
        }
        let version = format!("{}/{}", options.version, prompt::VERSION);
        Ok(Llm { endpoint, options, version })
    }

    async fn read(&self, text: &str, context: Context<'_>) -> Result<Extracted, ExtractError> {
        if text.trim().is_empty() {
            return Ok(Extracted::default());
        }
        let mut messages = self.question(text, context);
        let said = match self.ask(&messages).await {
            Ok(said) => said,
            Err(Unread::Failed(error)) => return Err(error),
            Err(Unread::Refused(why)) => {
                self.prove().await?;
                return Err(ExtractError::Bad { why });
            }
        };
        let complaints = match said.read() {
            Ok(found) => return Ok(self.kept(found, text, context)),
            Err(complaints) => complaints,
        };
        let mut shown = said.text;
        shown.truncate(shown.floor_char_boundary(SHOWN_BYTES_MAX));
        messages.push(json!({"role": "assistant", "content": shown}));
        messages.push(json!({"role": "user", "content": prompt::repair(&complaints)}));
        let said = match self.ask(&messages).await {
            Ok(said) => said,
            Err(Unread::Failed(error)) => return Err(error),
            // It answered a moment ago, so this is about what is in the request.
            Err(Unread::Refused(why)) => return Err(ExtractError::Bad { why }),
        };
        match said.read() {
            Ok(found) => Ok(self.kept(found, text, context)),
            Err(complaints) => {
                let why = format!("the model answered against the rules twice: {}", complaints[0]);
                Err(ExtractError::bad(self.endpoint.hide(&why)))
            }
        }
    }

    fn question(&self, text: &str, context: Context<'_>) -> Vec<Value> {
        let rules = prompt::instructions(&self.options.kinds, self.options.limits);
        vec![
            json!({"role": "system", "content": rules}),
            json!({"role": "user", "content": prompt::fenced(text, context)}),
        ]
    }

    /// Whether the endpoint reads anything at all.
    async fn prove(&self) -> Result<(), ExtractError> {
        match self.ask(&self.question(HARMLESS, Context::default())).await {
            Ok(_) => Ok(()),
            Err(Unread::Failed(why)) => Err(why),
            Err(Unread::Refused(why)) => {
                Err(ExtractError::transient(format!("it refuses every text: {why}")))
            }
        }
    }

    /// Asks once.
    async fn ask(&self, messages: &[Value]) -> Result<Said, Unread> {
        let schema = prompt::schema(&self.options.kinds);
        let mut body = json!({
            "model": self.options.model,
            "messages": messages,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "graph", "strict": true, "schema": schema},
            },
        });
        if let Some(temperature) = self.options.temperature {
            body["temperature"] = temperature.into();
        }
        if let Some(tokens_max) = self.options.tokens_max {
            body["max_tokens"] = tokens_max.into();
        }
        let reply = self.endpoint.post(body.to_string().into_bytes()).await;
        let reply = reply.map_err(|error| ExtractError::transient(error.to_string()))?;
        if reply.status != 200 {
            return Err(self.endpoint.refused(&reply, "gives no answer").into());
        }
        let nonsense = |why: &str| {
            let why = self.endpoint.hide(why);
            ExtractError::transient(format!(
                "{}: it gave no answer of a model: {why}",
                self.endpoint
            ))
        };
        let chat: Chat =
            serde_json::from_slice(&reply.body).map_err(|error| nonsense(&error.to_string()))?;
        let choice = chat.choices.into_iter().next().ok_or_else(|| nonsense("there is none"))?;
        if let Some(refusal) = choice.message.refusal {
            let said = self.endpoint.hide(&clean(&refusal, 300));
            return Err(ExtractError::bad(format!("the model refuses the text: {said}")).into());
        }
        if choice.finish_reason.as_deref() == Some("content_filter") {
            return Err(ExtractError::bad("the endpoint filters the text out").into());
        }
        let is_cut = choice.finish_reason.as_deref() == Some("length");
        Ok(Said { text: choice.message.content.unwrap_or_default(), is_cut })
    }

    /// What the rules keep, and of that what the text really names: a model may have been talked
    /// into something, or have made it up.
    fn kept(&self, mut found: Extracted, text: &str, context: Context<'_>) -> Extracted {
        let mut named = normalised(text);
        for part in context.headings.iter().chain([&context.document]) {
            named.push(' ');
            named.push_str(&normalised(part));
        }
        found.entities.retain(|entity| {
            let name = normalised(&entity.name);
            !name.is_empty() && name.split(' ').any(|word| named.contains(word))
        });
        for entity in &mut found.entities {
            let kind = entity.kind.trim().to_lowercase();
            let is_known = self.options.kinds.contains(&kind);
            entity.kind = if is_known { kind } else { prompt::OTHER.to_owned() };
        }
        self.options.limits.kept(found)
    }
}

impl Extractor for Llm {
    fn name(&self) -> &str {
        &self.options.model
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn parameters(&self) -> String {
        let Options { kinds, limits, temperature, tokens_max, .. } = &self.options;
        let (kinds, limits) = (kinds.join(","), limits.text());
        format!("kinds={kinds} {limits} temperature={temperature:?} tokens<={tokens_max:?}")
    }

    fn extract<'a>(
        &'a self,
        text: &'a str,
        context: Context<'a>,
    ) -> BoxFuture<'a, Result<Extracted, ExtractError>> {
        Box::pin(self.read(text, context))
    }
}

/// What a model said.
struct Said {
    text: String,
    /// It had more to say than it was allowed.
    is_cut: bool,
}

impl Said {
    fn read(&self) -> Result<Extracted, Vec<String>> {
        let read = answer::read(&self.text);
        if read.is_err() && self.is_cut {
            let why = "it was cut off: list fewer entities and relationships, in shorter words";
            return Err(vec![why.to_owned()]);
        }
        read
    }
}

/// Why a request has no answer.
enum Unread {
    /// Because of what is in it.
    Refused(String),
    Failed(ExtractError),
}

impl From<ExtractError> for Unread {
    fn from(error: ExtractError) -> Unread {
        Unread::Failed(error)
    }
}

impl From<Refused> for Unread {
    fn from(refused: Refused) -> Unread {
        match refused {
            Refused::Content(why) => Unread::Refused(why),
            Refused::Failed { why, retry_after_ms } => {
                Unread::Failed(ExtractError::Transient { why, retry_after_ms })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_may_end_as_people_write_it() {
        for base in ["http://h/v1", "http://h/v1/", "http://h/v1/chat/completions"] {
            let model = Llm::new(base, Options::new("any")).unwrap();
            assert_eq!(model.endpoint.to_string(), "http://h/v1/chat/completions");
        }
        assert!(Llm::new("localhost:1234", Options::new("any")).is_err());
    }

    #[test]
    fn what_decides_an_answer_is_in_what_it_is_remembered_by() {
        let of = |change: fn(&mut Options)| {
            let mut options = Options::new("any");
            change(&mut options);
            let model = Llm::new("http://h/v1", options).unwrap();
            format!("{} {} {}", model.name(), model.version(), model.parameters())
        };
        let changes: [fn(&mut Options); 8] = [
            |_| {},
            |options| options.model = "other".into(),
            |options| options.version = "2".into(),
            |options| options.kinds = vec!["drug".into()],
            |options| options.limits.score_min = 40,
            |options| options.limits.entities_max = 5,
            |options| options.temperature = None,
            |options| options.tokens_max = Some(100),
        ];
        let all: std::collections::HashSet<String> = changes.map(of).into_iter().collect();
        assert_eq!(all.len(), changes.len(), "{all:?}");
        assert_eq!(of(|_| {}), of(|options| options.kinds.push(prompt::OTHER.into())));
    }

    #[test]
    fn what_the_text_does_not_name_is_not_kept() {
        let model = Llm::new("http://h/v1", Options::new("any")).unwrap();
        let entity = |name: &str, kind: &str| super::super::Entity {
            name: name.into(),
            kind: kind.into(),
            description: String::new(),
            score: 90,
        };
        let entities = vec![
            entity("Lovelace, Ada", " Person "),
            entity("PWNED", "person"),
            entity("Analytical Engine", "gadget"),
            entity("Notes", "document"),
        ];
        let found = Extracted { entities, ..Extracted::default() };
        let context = Context { document: "Notes", headings: &["The engine"] };
        let kept = model.kept(found, "Lady Lovelace wrote it.", context);
        let mut all: Vec<_> =
            kept.entities.iter().map(|entity| (&*entity.name, &*entity.kind)).collect();
        all.sort_unstable();
        let expected =
            [("Analytical Engine", "other"), ("Lovelace, Ada", "person"), ("Notes", "document")];
        assert_eq!(all, expected);
    }
}
