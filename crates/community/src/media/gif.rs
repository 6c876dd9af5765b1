//! Animated GIFs are kept as they move; only what is no picture is taken out of them.
//!
//! The form (GIF89a): a header, a screen descriptor with an optional table of colours, then blocks:
//! pictures, and extensions of which we keep those that time and place pictures (graphic control)
//! and the one that makes them loop. Comments, plain text and other applications' data go.

/// An animation without what was hidden in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Gif {
    /// The file.
    pub(crate) bytes: Vec<u8>,
    /// How many pictures it has.
    pub(crate) frames: usize,
}

/// Copies what belongs to the pictures. None when the file breaks off or is no GIF.
pub(crate) fn clean(file: &[u8]) -> Option<Gif> {
    let mut rest = file;
    let mut bytes = Vec::with_capacity(file.len());
    let screen = take(&mut rest, 13)?;
    if !screen.starts_with(b"GIF8") {
        return None;
    }
    bytes.extend_from_slice(screen);
    bytes.extend_from_slice(take(&mut rest, colours(screen[10]))?);
    let mut frames = 0;
    loop {
        match *rest.first()? {
            // Extension: its label tells what it is.
            0x21 => {
                let head = take(&mut rest, 2)?;
                let blocks = sub_blocks(&mut rest)?;
                let loops = blocks.starts_with(b"\x0BNETSCAPE2.0") && blocks.len() <= 20;
                if head[1] == 0xF9 || head[1] == 0xFF && loops {
                    bytes.extend_from_slice(head);
                    bytes.extend_from_slice(blocks);
                }
            }
            // Picture: its place, colours, and pixels.
            0x2C => {
                let place = take(&mut rest, 10)?;
                bytes.extend_from_slice(place);
                bytes.extend_from_slice(take(&mut rest, colours(place[9]))?);
                bytes.extend_from_slice(take(&mut rest, 1)?);
                bytes.extend_from_slice(sub_blocks(&mut rest)?);
                frames += 1;
            }
            // The end. What may stand behind it is left out.
            0x3B => {
                bytes.push(0x3B);
                return (frames > 0).then_some(Gif { bytes, frames });
            }
            _ => return None,
        }
    }
}

fn take<'f>(rest: &mut &'f [u8], length: usize) -> Option<&'f [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// The length of a table of colours, by the flags before it.
fn colours(flags: u8) -> usize {
    if flags & 0x80 == 0 { 0 } else { 3 << ((flags & 7) + 1) }
}

/// Blocks of a length byte and so many bytes, up to and with the empty one.
fn sub_blocks<'f>(rest: &mut &'f [u8]) -> Option<&'f [u8]> {
    let mut length = 0;
    loop {
        let block = usize::from(*rest.get(length)?);
        length += 1 + block;
        if block == 0 {
            return take(rest, length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &[u8] = b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xFF\xFF\xFF";
    const LOOP: &[u8] = b"\x21\xFF\x0BNETSCAPE2.0\x03\x01\0\0\0";
    const TIME: &[u8] = b"\x21\xF9\x04\0\x0A\0\0\0";
    const FRAME: &[u8] = b"\x2C\0\0\0\0\x01\0\x01\0\0\x02\x02\x44\x01\0";

    #[test]
    fn comments_and_other_applications_data_are_taken_out_and_pictures_stay() {
        let comment = b"\x21\xFE\x09I am here\0";
        let xmp = b"\x21\xFF\x0BXMP DataXMP\x03<x>\0";
        let file =
            [HEAD, comment, LOOP, xmp, TIME, FRAME, comment, TIME, FRAME, b"\x3Bhidden"].concat();
        let gif = clean(&file).unwrap();
        assert_eq!(gif.frames, 2);
        assert_eq!(gif.bytes, [HEAD, LOOP, TIME, FRAME, TIME, FRAME, b"\x3B"].concat());
    }

    #[test]
    fn broken_files_are_refused_wherever_they_break() {
        let file = [HEAD, LOOP, TIME, FRAME, b"\x3B"].concat();
        for end in 0..file.len() {
            assert_eq!(clean(&file[..end]), None, "cut at {end}");
        }
        proptest::proptest!(|(tail in proptest::collection::vec(0u8.., 0..200))| {
            let _ = clean(&[HEAD, &tail[..]].concat());
        });
    }
}
