//! How things look on disk: small, explicit, and apart from how they look in memory.
//!
//! Numbers are varints, texts and bytes carry their length, enums a tag. Every type that is
//! written has its layout in this folder and nowhere else; changing one is changing the format.

pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod record;
pub(crate) mod settings;
pub(crate) mod trail;

use std::sync::Arc;

/// The bytes of a record do not say what they should. The checksum was right, so this is a bug or
/// a format of the future.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a record is malformed")]
pub(crate) struct Malformed;

/// Reads what [`Pack::put`] wrote.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.bytes.split_at_checked(len).ok_or(Malformed)?;
        self.bytes = tail;
        Ok(head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// A serial: eight bytes, because its varint would be longer.
    pub(crate) fn serial(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8)?.try_into().map_err(|_| Malformed)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Malformed)
    }

    pub(crate) fn get<T: Pack>(&mut self) -> Result<T, Malformed> {
        T::get(self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn put_serial(out: &mut Vec<u8>, serial: u64) {
    out.extend_from_slice(&serial.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A type with a layout on disk.
pub(crate) trait Pack: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn get(from: &mut Reader<'_>) -> Result<Self, Malformed>;
}

macro_rules! pack_numbers {
    ($($number:ty)*) => {$(
        impl Pack for $number {
            fn put(&self, out: &mut Vec<u8>) {
                put_varint(out, u64::from(*self));
            }
            fn get(from: &mut Reader<'_>) -> Result<Self, Malformed> {
                <$number>::try_from(from.varint()?).map_err(|_| Malformed)
            }
        }
    )*};
}

pack_numbers!(u8 u16 u32 u64);

impl Pack for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn get(from: &mut Reader<'_>) -> Result<bool, Malformed> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl Pack for u128 {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_le_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<u128, Malformed> {
        let bytes = from.take(16)?.try_into().map_err(|_| Malformed)?;
        Ok(u128::from_le_bytes(bytes))
    }
}

impl Pack for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<String, Malformed> {
        from.text().map(str::to_owned)
    }
}

impl Pack for Arc<str> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.as_bytes());
    }
    fn get(from: &mut Reader<'_>) -> Result<Arc<str>, Malformed> {
        from.text().map(Arc::from)
    }
}

impl Pack for Arc<[u8]> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }
    fn get(from: &mut Reader<'_>) -> Result<Arc<[u8]>, Malformed> {
        Ok(from.bytes()?.into())
    }
}

impl Pack for Vec<u8> {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(out, self);
    }
    fn get(from: &mut Reader<'_>) -> Result<Vec<u8>, Malformed> {
        from.bytes().map(<[u8]>::to_vec)
    }
}

impl<T: Pack> Pack for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(value) => {
                out.push(1);
                value.put(out);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Option<T>, Malformed> {
        match from.byte()? {
            0 => Ok(None),
            1 => T::get(from).map(Some),
            _ => Err(Malformed),
        }
    }
}

impl<T: Pack, U: Pack> Pack for (T, U) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
    fn get(from: &mut Reader<'_>) -> Result<(T, U), Malformed> {
        Ok((T::get(from)?, U::get(from)?))
    }
}

impl<T: Pack, E: Pack> Pack for Result<T, E> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Ok(value) => {
                out.push(0);
                value.put(out);
            }
            Err(error) => {
                out.push(1);
                error.put(out);
            }
        }
    }
    fn get(from: &mut Reader<'_>) -> Result<Result<T, E>, Malformed> {
        match from.byte()? {
            0 => T::get(from).map(Ok),
            1 => E::get(from).map(Err),
            _ => Err(Malformed),
        }
    }
}

impl Pack for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn get(_: &mut Reader<'_>) -> Result<(), Malformed> {
        Ok(())
    }
}

/// A list: how many, then each.
pub(crate) fn put_list<T: Pack>(out: &mut Vec<u8>, list: &[T]) {
    put_varint(out, list.len() as u64);
    list.iter().for_each(|value| value.put(out));
}

pub(crate) fn get_list<T: Pack>(from: &mut Reader<'_>) -> Result<Vec<T>, Malformed> {
    let len = from.varint()?;
    // A length is not trusted before its elements are there.
    let mut list = Vec::with_capacity(len.min(1_024) as usize);
    for _ in 0..len {
        list.push(T::get(from)?);
    }
    Ok(list)
}

/// Gives structs a layout: their fields in this order.
macro_rules! pack_struct {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl $crate::embedded::codec::Pack for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::embedded::codec::Pack::put(&self.$field, out);)*
            }
            fn get(
                from: &mut $crate::embedded::codec::Reader<'_>,
            ) -> Result<Self, $crate::embedded::codec::Malformed> {
                Ok($type { $($field: from.get()?),* })
            }
        }
    )*};
}

/// Gives enums a layout: a tag per variant, then its fields.
macro_rules! pack_enum {
    ($($type:ident {
        $($tag:literal = $variant:ident $(($($of:ident),*))? $({$($field:ident),*})?),* $(,)?
    })*) => {$(
        impl $crate::embedded::codec::Pack for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $($type::$variant $(($($of),*))? $({$($field),*})? => {
                        out.push($tag);
                        $($($crate::embedded::codec::Pack::put($of, out);)*)?
                        $($($crate::embedded::codec::Pack::put($field, out);)*)?
                    })*
                }
            }
            fn get(
                from: &mut $crate::embedded::codec::Reader<'_>,
            ) -> Result<Self, $crate::embedded::codec::Malformed> {
                Ok(match from.byte()? {
                    $($tag => $type::$variant
                        $(($({ let $of = from.get()?; $of }),*))?
                        $({$($field: from.get()?),*})?,)*
                    _ => return Err($crate::embedded::codec::Malformed),
                })
            }
        }
    )*};
}

/// Gives newtypes the layout of what they hold.
macro_rules! pack_newtype {
    ($($type:ident)*) => {$(
        impl $crate::embedded::codec::Pack for $type {
            fn put(&self, out: &mut Vec<u8>) {
                self.0.put(out);
            }
            fn get(
                from: &mut $crate::embedded::codec::Reader<'_>,
            ) -> Result<Self, $crate::embedded::codec::Malformed> {
                Ok($type(from.get()?))
            }
        }
    )*};
}

/// Gives lists of these types a layout.
macro_rules! pack_lists {
    ($($type:ty),* $(,)?) => {$(
        impl $crate::embedded::codec::Pack for Vec<$type> {
            fn put(&self, out: &mut Vec<u8>) {
                $crate::embedded::codec::put_list(out, self);
            }
            fn get(
                from: &mut $crate::embedded::codec::Reader<'_>,
            ) -> Result<Self, $crate::embedded::codec::Malformed> {
                $crate::embedded::codec::get_list(from)
            }
        }
    )*};
}

pub(crate) use {pack_enum, pack_lists, pack_newtype, pack_struct};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_small_ones_are_short() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::MAX / 3, u64::MAX] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(Reader::new(&out).varint(), Ok(value));
        }
        let mut out = Vec::new();
        put_varint(&mut out, 127);
        assert_eq!(out.len(), 1);
    }

    #[test]
    fn what_ends_too_early_or_has_a_wrong_tag_is_malformed() {
        assert_eq!(Reader::new(&[0x80]).varint(), Err(Malformed));
        assert_eq!(Reader::new(&[0xff; 11]).varint(), Err(Malformed));
        assert_eq!(Reader::new(&[5, b'x']).text(), Err(Malformed));
        assert_eq!(Reader::new(&[2]).get::<Option<u8>>(), Err(Malformed));
        assert_eq!(Reader::new(&[1, 0xff]).get::<String>(), Err(Malformed));
    }
}
