//! Bodies on disk: the second part of a `CREATE` or `BODY` record, after the item's image.

use std::sync::Arc;

use windrow_core::item::{Body, Payload};

use super::record::Image;
use super::{Malformed, Pack, Reader, put_bytes, put_varint};
use crate::embedded::schedule::names::Names;

/// The numbers of the names that only bodies use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BodyNames {
    pub(crate) op: u32,
    pub(crate) collection: Option<u32>,
    pub(crate) branch: Option<u32>,
    pub(crate) source_type: Option<u32>,
    pub(crate) content_type: Option<u32>,
}

const INLINE: u8 = 0;
const BLOB: u8 = 1;

/// Which optional fields a body has: most have none, so they share one byte.
fn present(body: &Body) -> u8 {
    let bits = [
        body.collection.is_some(),
        body.branch.is_some(),
        body.source_type.is_some(),
        body.content_type.is_some(),
        body.source_info.is_some(),
        body.reference.is_some(),
        body.metadata.is_some(),
        body.cloned_from.is_some(),
    ];
    bits.iter().enumerate().fold(0, |set, (bit, is)| set | u8::from(*is) << bit)
}

/// Writes what a body has beyond the item's image.
pub(crate) fn put_body(body: &Body, names: &BodyNames, out: &mut Vec<u8>) {
    names.op.put(out);
    out.push(present(body));
    let shared = [names.collection, names.branch, names.source_type, names.content_type];
    shared.iter().flatten().for_each(|no| no.put(out));
    let own = [&body.source_info, &body.reference, &body.metadata];
    own.into_iter().flatten().for_each(|text| text.put(out));
    if let Some(id) = body.cloned_from {
        id.put(out);
    }
    put_bytes(out, body.key.as_deref().unwrap_or_default().as_bytes());
    match &body.payload {
        Payload::Inline(bytes) => {
            out.push(INLINE);
            put_varint(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
        }
        Payload::Blob(blob) => {
            out.push(BLOB);
            blob.put(out);
        }
    }
}

/// Reads a `CREATE` or `BODY` record.
pub(crate) fn get_body(bytes: &[u8], names: &Names) -> Result<(Image, Body), Malformed> {
    let from = &mut Reader::new(bytes);
    let image: Image = from.get()?;
    let op: u32 = from.get()?;
    let present = from.byte()?;
    let has = |bit: u8| present >> bit & 1 == 1;
    let text = |no: u32| names.texts().get(no as usize).cloned().ok_or(Malformed);
    let shared = |is: bool, from: &mut Reader<'_>| -> Result<Option<Arc<str>>, Malformed> {
        if is { text(from.get()?).map(Some) } else { Ok(None) }
    };
    let collection = shared(has(0), from)?;
    let branch = shared(has(1), from)?;
    let source_type = shared(has(2), from)?;
    let content_type = shared(has(3), from)?;
    let own = |is: bool, from: &mut Reader<'_>| -> Result<Option<String>, Malformed> {
        if is { from.get().map(Some) } else { Ok(None) }
    };
    let source_info = own(has(4), from)?;
    let reference = own(has(5), from)?;
    let metadata = own(has(6), from)?;
    let cloned_from = if has(7) { Some(from.get()?) } else { None };
    let key = from.text()?;
    let payload = match from.byte()? {
        INLINE => Payload::Inline(from.get()?),
        BLOB => Payload::Blob(from.get()?),
        _ => return Err(Malformed),
    };
    let body = Body {
        tenant: text(image.tenant)?,
        queue: text(image.queue)?,
        kind: text(image.kind)?,
        op: text(op)?,
        key: (!key.is_empty()).then(|| key.to_owned()),
        group: image.group.clone(),
        collection,
        branch,
        source_type,
        source_info,
        reference,
        route: names.find_route_no(image.route).ok_or(Malformed)?,
        content_type,
        payload,
        metadata,
        cloned_from,
    };
    Ok((image, body))
}
