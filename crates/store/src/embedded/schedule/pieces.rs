//! Numbered values in pieces that never move, so that growing never copies.

/// Values per piece.
const PIECE: usize = 4096;

/// Values by number, from zero on.
#[derive(Debug)]
pub(crate) struct Pieces<T> {
    pieces: Vec<Box<[T]>>,
    len: u32,
}

impl<T> Default for Pieces<T> {
    fn default() -> Pieces<T> {
        Pieces { pieces: Vec::new(), len: 0 }
    }
}

impl<T> Pieces<T> {
    /// How many there are.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, no: u32) -> &T {
        &self.pieces[no as usize / PIECE][no as usize % PIECE]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, no: u32) -> &mut T {
        &mut self.pieces[no as usize / PIECE][no as usize % PIECE]
    }

    /// One more, and its number. `empty` makes what stands where nothing was put yet.
    pub(crate) fn push(&mut self, value: T, empty: impl Fn() -> T) -> u32 {
        let no = self.len;
        if no as usize == self.pieces.len() * PIECE {
            self.pieces.push((0..PIECE).map(|_| empty()).collect());
        }
        *self.get_mut(no) = value;
        self.len += 1;
        no
    }
}
