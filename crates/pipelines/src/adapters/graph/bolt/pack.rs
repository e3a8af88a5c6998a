//! PackStream: values as Bolt writes them.
//!
//! What is read may come from anybody: no length is believed before its bytes are there, and
//! nothing nests deeper than we could follow.

/// A value of a message.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
    /// A message, or a node, a date and the like.
    Structure(u8, Vec<Value>),
}

/// What cannot be read, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Unreadable(pub(super) &'static str);

const DEPTH_MAX: u32 = 64;

impl Value {
    /// The value under a key of a map.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        let Value::Map(all) = self else { return None };
        all.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(super) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn int(&self) -> Option<i64> {
        if let Value::Int(number) = self { Some(*number) } else { None }
    }

    /// Appends it to a message.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::Null => out.push(0xC0),
            Value::Bool(false) => out.push(0xC2),
            Value::Bool(true) => out.push(0xC3),
            Value::Int(number) => write_int(*number, out),
            Value::Float(number) => {
                out.push(0xC1);
                out.extend(number.to_be_bytes());
            }
            Value::Bytes(bytes) => {
                write_size(bytes.len(), None, 0xCC, out);
                out.extend(bytes);
            }
            Value::Text(text) => write_text(text, out),
            Value::List(values) => {
                write_size(values.len(), Some(0x90), 0xD4, out);
                values.iter().for_each(|value| value.write(out));
            }
            Value::Map(all) => {
                write_size(all.len(), Some(0xA0), 0xD8, out);
                for (name, value) in all {
                    write_text(name, out);
                    value.write(out);
                }
            }
            Value::Structure(tag, fields) => {
                assert!(fields.len() < 16, "a structure has at most fifteen fields");
                out.push(0xB0 | fields.len() as u8);
                out.push(*tag);
                fields.iter().for_each(|value| value.write(out));
            }
        }
    }

    /// The one value that all these bytes are.
    pub(super) fn read(bytes: &[u8]) -> Result<Value, Unreadable> {
        let mut rest = bytes;
        let value = read(&mut rest, DEPTH_MAX)?;
        if rest.is_empty() { Ok(value) } else { Err(Unreadable("there is more than one value")) }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

/// A map of these.
pub(super) fn map<const N: usize>(all: [(&str, Value); N]) -> Value {
    Value::Map(all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    write_size(text.len(), Some(0x80), 0xD0, out);
    out.extend(text.as_bytes());
}

/// A size in its marker if there is a short one, else after it in one, two or four bytes.
fn write_size(size: usize, short: Option<u8>, long: u8, out: &mut Vec<u8>) {
    match (size, short) {
        (0..16, Some(short)) => out.push(short | size as u8),
        (0..0x100, _) => out.extend([long, size as u8]),
        (0..0x1_0000, _) => {
            out.push(long + 1);
            out.extend((size as u16).to_be_bytes());
        }
        _ => {
            let size = u32::try_from(size).expect("a message is not that long");
            out.push(long + 2);
            out.extend(size.to_be_bytes());
        }
    }
}

fn write_int(number: i64, out: &mut Vec<u8>) {
    if let Ok(tiny @ -16..) = i8::try_from(number) {
        out.push(tiny as u8);
    } else if let Ok(small) = i8::try_from(number) {
        out.extend([0xC8, small as u8]);
    } else if let Ok(small) = i16::try_from(number) {
        out.push(0xC9);
        out.extend(small.to_be_bytes());
    } else if let Ok(small) = i32::try_from(number) {
        out.push(0xCA);
        out.extend(small.to_be_bytes());
    } else {
        out.push(0xCB);
        out.extend(number.to_be_bytes());
    }
}

fn read(rest: &mut &[u8], depth: u32) -> Result<Value, Unreadable> {
    let depth = depth.checked_sub(1).ok_or(Unreadable("it is nested too deeply"))?;
    let [marker] = array(rest)?;
    let low = usize::from(marker & 0x0F);
    Ok(match marker {
        0x00..=0x7F | 0xF0..=0xFF => Value::Int(i64::from(marker as i8)),
        0x80..=0x8F => Value::Text(text(rest, low)?),
        0x90..=0x9F => Value::List(list(rest, low, depth)?),
        0xA0..=0xAF => Value::Map(pairs(rest, low, depth)?),
        0xB0..=0xBF => {
            let [tag] = array(rest)?;
            Value::Structure(tag, list(rest, low, depth)?)
        }
        0xC0 => Value::Null,
        0xC1 => Value::Float(f64::from_be_bytes(array(rest)?)),
        0xC2 => Value::Bool(false),
        0xC3 => Value::Bool(true),
        0xC8 => Value::Int(i64::from(i8::from_be_bytes(array(rest)?))),
        0xC9 => Value::Int(i64::from(i16::from_be_bytes(array(rest)?))),
        0xCA => Value::Int(i64::from(i32::from_be_bytes(array(rest)?))),
        0xCB => Value::Int(i64::from_be_bytes(array(rest)?)),
        0xCC..=0xCE => {
            let size = size(rest, marker - 0xCC)?;
            Value::Bytes(take(rest, size)?.to_vec())
        }
        0xD0..=0xD2 => {
            let size = size(rest, marker - 0xD0)?;
            Value::Text(text(rest, size)?)
        }
        0xD4..=0xD6 => {
            let size = size(rest, marker - 0xD4)?;
            Value::List(list(rest, size, depth)?)
        }
        0xD8..=0xDA => {
            let size = size(rest, marker - 0xD8)?;
            Value::Map(pairs(rest, size, depth)?)
        }
        _ => return Err(Unreadable("there is a marker that means nothing")),
    })
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], Unreadable> {
    let (taken, after) = rest.split_at_checked(count).ok_or(Unreadable("it ends too soon"))?;
    *rest = after;
    Ok(taken)
}

fn array<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Unreadable> {
    let mut bytes = [0; N];
    bytes.copy_from_slice(take(rest, N)?);
    Ok(bytes)
}

/// A size of one, two or four bytes.
fn size(rest: &mut &[u8], width: u8) -> Result<usize, Unreadable> {
    Ok(match width {
        0 => usize::from(array::<1>(rest)?[0]),
        1 => usize::from(u16::from_be_bytes(array(rest)?)),
        _ => u32::from_be_bytes(array(rest)?) as usize,
    })
}

fn text(rest: &mut &[u8], size: usize) -> Result<String, Unreadable> {
    let bytes = take(rest, size)?.to_vec();
    String::from_utf8(bytes).map_err(|_| Unreadable("a text is not UTF-8"))
}

/// Every value has a byte at least, so that no more of them are read than there is.
fn list(rest: &mut &[u8], count: usize, depth: u32) -> Result<Vec<Value>, Unreadable> {
    let mut all = Vec::new();
    for _ in 0..count {
        all.push(read(rest, depth)?);
    }
    Ok(all)
}

fn pairs(rest: &mut &[u8], count: usize, depth: u32) -> Result<Vec<(String, Value)>, Unreadable> {
    let mut all = Vec::new();
    for _ in 0..count {
        let Value::Text(name) = read(rest, depth)? else {
            return Err(Unreadable("a key is not a text"));
        };
        all.push((name, read(rest, depth)?));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

    fn written(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        value.write(&mut out);
        out
    }

    #[test]
    fn values_are_written_as_the_specification_has_them() {
        for (value, bytes) in [
            (Value::Null, &[0xC0][..]),
            (Value::Bool(true), &[0xC3]),
            (Value::Int(1), &[0x01]),
            (Value::Int(-16), &[0xF0]),
            (Value::Int(-17), &[0xC8, 0xEF]),
            (Value::Int(127), &[0x7F]),
            (Value::Int(128), &[0xC9, 0x00, 0x80]),
            (Value::Int(40_000), &[0xCA, 0x00, 0x00, 0x9C, 0x40]),
            (Value::Int(1 << 40), &[0xCB, 0, 0, 1, 0, 0, 0, 0, 0]),
            (Value::Float(1.5), &[0xC1, 0x3F, 0xF8, 0, 0, 0, 0, 0, 0]),
            (Value::from("a"), &[0x81, b'a']),
            (Value::Bytes(vec![7]), &[0xCC, 1, 7]),
            (Value::List(vec![Value::Int(1)]), &[0x91, 0x01]),
            (map([("a", Value::Null)]), &[0xA1, 0x81, b'a', 0xC0]),
            (Value::Structure(0x70, vec![map([])]), &[0xB1, 0x70, 0xA0]),
        ] {
            assert_eq!(written(&value), bytes, "{value:?}");
            assert_eq!(Value::read(bytes), Ok(value));
        }
    }

    #[test]
    fn values_of_every_size_come_back() {
        let edges = [0, 1, 15, 16, 127, 128, 255, 256, 65_535, 65_536];
        for size in edges {
            let many = vec![Value::Int(1); size];
            let pairs = (0..size).map(|nth| (nth.to_string(), Value::Null)).collect();
            for value in [
                Value::Text("x".repeat(size)),
                Value::Bytes(vec![1; size]),
                Value::List(many),
                Value::Map(pairs),
            ] {
                assert!(Value::read(&written(&value)).as_ref() == Ok(&value), "{size}");
            }
        }
        for number in edges.map(|size| size as i64).into_iter().chain([i64::MIN, i64::MAX]) {
            for number in [number, number.wrapping_neg(), number.wrapping_sub(1)] {
                assert_eq!(Value::read(&written(&number.into())), Ok(number.into()));
            }
        }
    }

    #[test]
    fn what_nobody_should_send_is_refused_and_costs_nothing() {
        for (bytes, why) in [
            (&[][..], "ends too soon"),
            (&[0xD2, 0xFF, 0xFF, 0xFF, 0xFF, 1], "ends too soon"),
            (&[0xD6, 0xFF, 0xFF, 0xFF, 0xFF, 1], "ends too soon"),
            (&[0xDA, 0xFF, 0xFF, 0xFF, 0xFF, 0x81, b'a', 1], "ends too soon"),
            (&[0x81, 0xFF], "not UTF-8"),
            (&[0xA1, 0x01, 0x01], "a key is not a text"),
            (&[0xC4], "means nothing"),
            (&[1, 1], "more than one"),
        ] {
            let Unreadable(said) = Value::read(bytes).unwrap_err();
            assert!(said.contains(why), "{bytes:?}: {said}");
        }
        let deep = vec![0x91; 1 << 20];
        assert_eq!(Value::read(&deep), Err(Unreadable("it is nested too deeply")));
        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..20_000 {
            let length = random.random_range(0..64);
            let bytes: Vec<u8> = (0..length).map(|_| random.random()).collect();
            if let Ok(value) = Value::read(&bytes) {
                assert!(Value::read(&written(&value)).is_ok(), "{bytes:?}");
            }
        }
    }
}
