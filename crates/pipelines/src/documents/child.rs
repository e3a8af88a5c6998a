//! Children: the items of pages and chunks, and what they say about themselves.
//!
//! What is known when an item is made stands in its metadata, under the names by which the views
//! of seed 001 show it. What is known only at its end stands in its result.

use std::sync::Arc;

use serde::Serialize;
use windrow_core::command::NewChild;
use windrow_core::route::Route;

use super::elsewhere::Below;
use super::{About, CHUNK, PAGE};
use crate::catalog::{ChunkId, Hash};

/// A page's metadata.
#[derive(Serialize)]
struct AboutPage<'a> {
    #[serde(flatten)]
    about: &'a About,
    /// Where its text would be if it were a file.
    page_file_path: String,
}

/// A page of a document, by its number.
pub(super) fn page_child(document: &About, number: u32, route: &Arc<Route>) -> NewChild {
    let id = document.document;
    let metadata = AboutPage {
        about: &About { page: Some(number), ..document.clone() },
        page_file_path: format!("documents/{id}/pages/{number}_nohf.md"),
    };
    NewChild {
        metadata: serde_json::to_string(&metadata).ok(),
        reference: Some(format!("{id}/{number}")),
        ..NewChild::new(number, PAGE, Arc::clone(route))
    }
}

/// A chunk's metadata.
#[derive(Serialize)]
struct AboutChunk {
    chunk_id: String,
    #[serde(with = "super::hex")]
    chunk_content_hash: Hash,
    /// How it stood there, if it is from elsewhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    elsewhere: Option<Below>,
}

/// A chunk, by its number among those that it is made with.
pub(super) fn chunk_child(
    number: u32,
    id: ChunkId,
    hash: Hash,
    elsewhere: Option<Below>,
    route: &Arc<Route>,
) -> NewChild {
    let metadata = AboutChunk { chunk_id: id.to_string(), chunk_content_hash: hash, elsewhere };
    NewChild {
        metadata: serde_json::to_string(&metadata).ok(),
        reference: Some(metadata.chunk_id),
        ..NewChild::new(number, CHUNK, Arc::clone(route))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::super::route::Gate;
    use super::*;

    fn metadata(child: &NewChild) -> Value {
        serde_json::from_str(child.metadata.as_deref().expect("metadata")).expect("JSON")
    }

    #[test]
    fn a_page_says_what_its_document_says_and_where_its_text_would_be() {
        let about = About {
            document: Uuid::from_u128(7),
            generation: 2,
            name: "a.pdf".into(),
            media_type: "application/pdf".into(),
            file: [0xab; 32],
            bytes: 12,
            page: None,
        };
        let child = page_child(&about, 3, &Gate::Item.page());
        let said = metadata(&child);
        assert_eq!(said["filename"], json!("a.pdf"));
        let path = "documents/00000000-0000-0000-0000-000000000007/pages/3_nohf.md";
        assert_eq!((child.ordinal, &said["page_file_path"]), (3, &json!(path)));
        let read: About = serde_json::from_value(said).expect("an item about a page");
        assert_eq!(read, About { page: Some(3), ..about });
    }

    #[test]
    fn a_chunk_says_which_it_is() {
        let child = chunk_child(9, ChunkId([1; 16]), [2; 32], None, &Gate::Item.page());
        let (id, hash) = ("01".repeat(16), "02".repeat(32));
        assert_eq!(metadata(&child), json!({"chunk_id": id, "chunk_content_hash": hash}));
        assert_eq!(child.reference, Some(id));
    }
}
