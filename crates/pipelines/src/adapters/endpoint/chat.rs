//! What a model answers in a chat, as OpenAI-compatible endpoints say it.

use serde::Deserialize;

#[derive(Deserialize)]
pub(in crate::adapters) struct Chat {
    pub(in crate::adapters) choices: Vec<Choice>,
}

#[derive(Deserialize)]
pub(in crate::adapters) struct Choice {
    pub(in crate::adapters) message: Message,
    pub(in crate::adapters) finish_reason: Option<String>,
}

#[derive(Deserialize)]
pub(in crate::adapters) struct Message {
    pub(in crate::adapters) content: Option<String>,
    pub(in crate::adapters) refusal: Option<String>,
}
