//! Refusals: an answer that is not the one that was asked for, and whose fault that is.

use std::borrow::Cow;

use super::{Endpoint, Reply};

/// Why an endpoint did not do what it was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// Because of what is in the request, if the endpoint is to be believed.
    Content(String),
    /// For a reason that is no request's.
    Failed {
        why: String,
        /// How long it asks to be left alone.
        retry_after_ms: Option<u64>,
    },
}

/// Of what an endpoint says, so much is passed on.
const SAID_MAX: usize = 300;

impl Endpoint {
    /// Whose fault an answer is that is not a success. `otherwise` says what is missing where the
    /// status tells nothing, such as `gives no vectors`.
    pub fn refused(&self, reply: &Reply, otherwise: &str) -> Refused {
        let status = reply.status;
        // Before it is cut, so that no half of a key is left, and after what hid it is undone.
        let body = self.hide(&String::from_utf8_lossy(&reply.body));
        let said = self.hide(&said(body.as_bytes()));
        let about = match status {
            400 | 413 | 422 => return Refused::Content(format!("refused ({status}): {said}")),
            429 => "asks to be left alone",
            401 | 403 => "refuses our key",
            404 => "knows no such address or model",
            300..=399 => "leads elsewhere, and is not followed",
            500.. => "cannot do it now",
            _ => otherwise,
        };
        let why = format!("{self} {about} ({status}): {said}");
        Refused::Failed { why, retry_after_ms: reply.retry_after_ms }
    }
}

/// What an endpoint says of an error, in one of the shapes that endpoints have for it.
fn said(body: &[u8]) -> String {
    let json: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let found = json.as_ref().and_then(|json| {
        let places = [
            &json["error"]["message"],
            &json["error"],
            &json["message"],
            &json["detail"],
            &json["status"]["error"],
        ];
        places.into_iter().find_map(|place| place.as_str())
    });
    let text = found.map_or_else(|| String::from_utf8_lossy(body), Cow::from);
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).collect();
    let said: String = words.join(" ").chars().take(SAID_MAX).collect();
    if said.trim().is_empty() { "it does not say why".to_owned() } else { said }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_endpoint_says_is_found_in_any_of_its_shapes() {
        for (body, expected) in [
            (r#"{"error": {"message": "too\n long", "code": 7}}"#, "too  long"),
            (r#"{"error": "too long"}"#, "too long"),
            (r#"{"message": "too long"}"#, "too long"),
            (r#"{"detail": "too long"}"#, "too long"),
            (r#"{"status": {"error": "too long"}, "time": 0.1}"#, "too long"),
            (r#"{"oops": 1}"#, r#"{"oops": 1}"#),
            ("<h1>no</h1>", "<h1>no</h1>"),
            (" \n ", "it does not say why"),
            ("", "it does not say why"),
        ] {
            assert_eq!(said(body.as_bytes()).trim(), expected, "{body}");
        }
        assert_eq!(said("é".repeat(10_000).as_bytes()).chars().count(), SAID_MAX);
    }
}
