//! Pictures: decoded within limits, turned upright, made anew without anything that was hidden in
//! them, and small copies of them.
//!
//! All of this is hard work on hostile bytes: it runs on blocking threads, through the
//! [`Workshop`](super::workshop::Workshop).

use std::io::Cursor;

use fast_image_resize::images::{Image, ImageRef};
use fast_image_resize::{FilterType, PixelType, ResizeAlg, ResizeOptions, Resizer};
use image::codecs::jpeg::JpegEncoder;
use image::codecs::png::PngEncoder;
use image::codecs::webp::WebPEncoder;
use image::metadata::Orientation;
use image::{
    DynamicImage, ImageDecoder, ImageEncoder, ImageFormat, ImageReader, Limits, RgbImage, RgbaImage,
};
use weir_base::MIB;

use super::sniff::Form;

/// Pixels a picture may have that comes in.
pub const PIXELS_MAX: u64 = 33_177_600;
/// Pixels of what is kept of it: 3840 x 2160.
pub const PIXELS_KEPT_MAX: u64 = 8_294_400;
/// Pixels of a small copy: 640 x 360.
pub const PIXELS_SMALL_MAX: u64 = 230_400;
/// The longest side a picture may have, in pixels.
const SIDE_MAX: u32 = 16_384;
/// What a decoder may allocate, in bytes: eight a pixel and something for itself.
const DECODER_BYTES_MAX: u64 = PIXELS_MAX * 8 + 32 * MIB as u64;
/// The largest colour profile that is kept, in bytes.
const PROFILE_BYTES_MAX: usize = 16 * 1024;
const JPEG_QUALITY: u8 = 90;
const JPEG_QUALITY_SMALL: u8 = 82;
/// The side of what a blurred preview is computed from, in pixels.
const BLUR_SIDE: u32 = 64;

/// Why a picture is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PictureError {
    /// It is not what it says it is, or is broken.
    #[error("is not a picture that can be read")]
    Unreadable,
    /// It has too many pixels.
    #[error("has too many pixels ({width}x{height}; the limit is {PIXELS_MAX} in all)")]
    TooLarge {
        /// Its width, in pixels.
        width: u32,
        /// Its height, in pixels.
        height: u32,
    },
    /// It could not be written anew.
    #[error("could not be made anew")]
    Unwritable,
}

/// A picture that was decoded: upright, eight bits a channel.
pub(crate) struct Picture {
    pixels: Pixels,
    profile: Option<Vec<u8>>,
}

enum Pixels {
    Opaque(RgbImage),
    Clear(RgbaImage),
}

/// A picture made anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) form: Form,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// What decoding takes in memory at most, in bytes, by the header alone.
pub(crate) fn cost_bytes(bytes: &[u8], form: Form) -> Result<u64, PictureError> {
    let decoder = decoder(bytes, form)?;
    let (width, height) = decoder.dimensions();
    // The decoded pixels, the same in eight bits, and copies while it is turned and resized.
    Ok(decoder.total_bytes().saturating_mul(2) + u64::from(width) * u64::from(height) * 4)
}

/// Decodes a picture (of an animation the first frame) and turns it upright.
pub(crate) fn decode(bytes: &[u8], form: Form) -> Result<Picture, PictureError> {
    let mut decoder = decoder(bytes, form)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let profile = decoder.icc_profile().ok().flatten().filter(|profile| is_kept(profile));
    let mut image = DynamicImage::from_decoder(decoder).map_err(|_| PictureError::Unreadable)?;
    image.apply_orientation(orientation);
    let opaque = !image.has_alpha();
    let pixels = if opaque {
        Pixels::Opaque(image.into_rgb8())
    } else {
        let image = image.into_rgba8();
        if image.pixels().all(|pixel| pixel.0[3] == u8::MAX) {
            Pixels::Opaque(DynamicImage::ImageRgba8(image).into_rgb8())
        } else {
            Pixels::Clear(image)
        }
    };
    Ok(Picture { pixels, profile })
}

fn decoder(bytes: &[u8], form: Form) -> Result<impl ImageDecoder + '_, PictureError> {
    let format = match form {
        Form::Jpeg => ImageFormat::Jpeg,
        Form::Png => ImageFormat::Png,
        Form::Webp => ImageFormat::WebP,
        Form::Gif => ImageFormat::Gif,
        _ => return Err(PictureError::Unreadable),
    };
    let mut limits = Limits::no_limits();
    limits.max_alloc = Some(DECODER_BYTES_MAX);
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    reader.limits(limits);
    let decoder = reader.into_decoder().map_err(|_| PictureError::Unreadable)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels == 0 {
        return Err(PictureError::Unreadable);
    }
    if pixels > PIXELS_MAX || width > SIDE_MAX || height > SIDE_MAX {
        return Err(PictureError::TooLarge { width, height });
    }
    Ok(decoder)
}

/// Whether a colour profile fits what we write: small, and for red, green and blue (ICC.1, 7.2).
fn is_kept(profile: &[u8]) -> bool {
    profile.len() <= PROFILE_BYTES_MAX && profile.get(16..20) == Some(b"RGB ")
}

impl Picture {
    pub(crate) fn size(&self) -> (u32, u32) {
        match &self.pixels {
            Pixels::Opaque(image) => image.dimensions(),
            Pixels::Clear(image) => image.dimensions(),
        }
    }

    /// A copy with at most so many pixels, in the same shape.
    pub(crate) fn scaled(&self, pixels_max: u64) -> Result<Self, PictureError> {
        let (width, height) = self.size();
        let pixels = u64::from(width) * u64::from(height);
        let shrink = (pixels_max as f64 / pixels as f64).sqrt().min(1.0);
        let side = |side: u32| ((f64::from(side) * shrink).floor() as u32).max(1);
        self.resized(side(width), side(height))
    }

    /// A copy that fills a box of this size, what hangs over on two sides being cut off.
    pub(crate) fn filling(&self, width: u32, height: u32) -> Result<Self, PictureError> {
        let (own_width, own_height) = self.size();
        let grow = (f64::from(width) / f64::from(own_width))
            .max(f64::from(height) / f64::from(own_height));
        // Small pictures stay small: they are only cut to shape.
        let grow = grow.min(1.0);
        let side = |side: u32| ((f64::from(side) * grow).round() as u32).max(1);
        let scaled = self.resized(side(own_width), side(own_height))?;
        let (scaled_width, scaled_height) = scaled.size();
        let shape = f64::from(width) / f64::from(height);
        let cut_width = scaled_width.min((f64::from(scaled_height) * shape).round() as u32).max(1);
        let cut_height = scaled_height.min((f64::from(scaled_width) / shape).round() as u32).max(1);
        let (left, top) = ((scaled_width - cut_width) / 2, (scaled_height - cut_height) / 2);
        let cut = |image: DynamicImage| image.crop_imm(left, top, cut_width, cut_height);
        let pixels = match scaled.pixels {
            Pixels::Opaque(image) => Pixels::Opaque(cut(image.into()).into_rgb8()),
            Pixels::Clear(image) => Pixels::Clear(cut(image.into()).into_rgba8()),
        };
        Ok(Self { pixels, profile: scaled.profile })
    }

    fn resized(&self, width: u32, height: u32) -> Result<Self, PictureError> {
        let profile = self.profile.clone();
        let pixels = match &self.pixels {
            Pixels::Opaque(image) if image.dimensions() == (width, height) => {
                Pixels::Opaque(image.clone())
            }
            Pixels::Clear(image) if image.dimensions() == (width, height) => {
                Pixels::Clear(image.clone())
            }
            Pixels::Opaque(image) => {
                let raw = resize(image.as_raw(), image.dimensions(), (width, height), 3)?;
                let image = RgbImage::from_raw(width, height, raw);
                Pixels::Opaque(image.ok_or(PictureError::Unwritable)?)
            }
            Pixels::Clear(image) => {
                let raw = resize(image.as_raw(), image.dimensions(), (width, height), 4)?;
                let image = RgbaImage::from_raw(width, height, raw);
                Pixels::Clear(image.ok_or(PictureError::Unwritable)?)
            }
        };
        Ok(Self { pixels, profile })
    }

    /// The picture as a file to keep: JPEG stays JPEG and PNG stays PNG; of the others, what can
    /// be seen through becomes lossless WebP, and what cannot becomes JPEG.
    pub(crate) fn encode(&self, origin: Form) -> Result<Encoded, PictureError> {
        let form = match (origin, &self.pixels) {
            (Form::Png, _) => Form::Png,
            (Form::Gif, Pixels::Clear(_)) => Form::Png,
            (_, Pixels::Clear(_)) => Form::Webp,
            (Form::Gif, _) => Form::Png,
            _ => Form::Jpeg,
        };
        self.write(form, JPEG_QUALITY)
    }

    /// The picture as a small file: JPEG, or PNG when it can be seen through.
    pub(crate) fn encode_small(&self) -> Result<Encoded, PictureError> {
        let form = match &self.pixels {
            Pixels::Opaque(_) => Form::Jpeg,
            Pixels::Clear(_) => Form::Png,
        };
        self.write(form, JPEG_QUALITY_SMALL)
    }

    /// The picture as PNG, for what must keep hard edges.
    pub(crate) fn encode_png(&self) -> Result<Encoded, PictureError> {
        self.write(Form::Png, JPEG_QUALITY)
    }

    fn write(&self, form: Form, quality: u8) -> Result<Encoded, PictureError> {
        let (width, height) = self.size();
        let mut bytes = Vec::new();
        let (raw, colour) = match &self.pixels {
            Pixels::Opaque(image) => (image.as_raw(), image::ExtendedColorType::Rgb8),
            Pixels::Clear(image) => (image.as_raw(), image::ExtendedColorType::Rgba8),
        };
        let written = match form {
            Form::Jpeg => self
                .with_profile(JpegEncoder::new_with_quality(&mut bytes, quality))
                .write_image(raw, width, height, colour),
            Form::Webp => self
                .with_profile(WebPEncoder::new_lossless(&mut bytes))
                .write_image(raw, width, height, colour),
            _ => self
                .with_profile(PngEncoder::new(&mut bytes))
                .write_image(raw, width, height, colour),
        };
        written.map_err(|_| PictureError::Unwritable)?;
        Ok(Encoded { bytes, form, width, height })
    }

    fn with_profile<E: ImageEncoder>(&self, mut encoder: E) -> E {
        if let Some(profile) = &self.profile {
            // An encoder that cannot keep it writes the picture without.
            let _ = encoder.set_icc_profile(profile.clone());
        }
        encoder
    }

    /// A blurred preview in 20 to 30 characters.
    pub(crate) fn blurhash(&self) -> Result<String, PictureError> {
        let tiny = self.scaled(u64::from(BLUR_SIDE * BLUR_SIDE))?;
        let (width, height) = tiny.size();
        let pixels: Vec<[u8; 3]> = match tiny.pixels {
            Pixels::Opaque(image) => image.pixels().map(|pixel| pixel.0).collect(),
            Pixels::Clear(image) => image.pixels().map(|pixel| over_white(pixel.0)).collect(),
        };
        let (width, height) = (width as usize, height as usize);
        let (across, down) = if width >= height { (4, 3) } else { (3, 4) };
        Ok(fast_blurhash::compute_dct(&pixels, width, height, across, down).into_blurhash())
    }
}

fn over_white([red, green, blue, alpha]: [u8; 4]) -> [u8; 3] {
    [red, green, blue].map(|channel| {
        let (channel, alpha) = (u16::from(channel), u16::from(alpha));
        ((channel * alpha + 255 * (255 - alpha)) / 255) as u8
    })
}

fn resize(
    raw: &[u8],
    from: (u32, u32),
    to: (u32, u32),
    channels: u8,
) -> Result<Vec<u8>, PictureError> {
    let kind = if channels == 3 { PixelType::U8x3 } else { PixelType::U8x4 };
    let source = ImageRef::new(from.0, from.1, raw, kind).map_err(|_| PictureError::Unwritable)?;
    let mut target = Image::new(to.0, to.1, kind);
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(FilterType::CatmullRom));
    Resizer::new().resize(&source, &mut target, &options).map_err(|_| PictureError::Unwritable)?;
    Ok(target.into_vec())
}
