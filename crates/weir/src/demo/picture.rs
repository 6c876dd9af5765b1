//! Pictures for the demo, painted by arithmetic: a sky, and hills one behind the other.

use std::io::Cursor;

use image::{ImageFormat, Rgb, RgbImage};
use weir_community::Error;

type Colour = [f32; 3];

/// The colours of a picture: the top and bottom of its sky, the farthest and nearest hills.
struct Scene {
    sky: [Colour; 2],
    hills: [Colour; 2],
}

const SCENES: &[Scene] = &[
    // Morning.
    Scene {
        sky: [[120.0, 170.0, 220.0], [250.0, 225.0, 190.0]],
        hills: [[150.0, 170.0, 190.0], [50.0, 85.0, 90.0]],
    },
    // Evening.
    Scene {
        sky: [[15.0, 20.0, 60.0], [240.0, 130.0, 60.0]],
        hills: [[70.0, 50.0, 80.0], [15.0, 15.0, 30.0]],
    },
    // Summer.
    Scene {
        sky: [[140.0, 195.0, 235.0], [225.0, 240.0, 250.0]],
        hills: [[150.0, 190.0, 150.0], [40.0, 110.0, 50.0]],
    },
    // Mist.
    Scene {
        sky: [[205.0, 215.0, 225.0], [245.0, 235.0, 225.0]],
        hills: [[200.0, 208.0, 214.0], [95.0, 115.0, 120.0]],
    },
    // Sunset.
    Scene {
        sky: [[90.0, 40.0, 80.0], [245.0, 150.0, 80.0]],
        hills: [[130.0, 60.0, 80.0], [35.0, 20.0, 35.0]],
    },
    // Garden.
    Scene {
        sky: [[190.0, 220.0, 235.0], [240.0, 245.0, 235.0]],
        hills: [[170.0, 200.0, 130.0], [60.0, 120.0, 60.0]],
    },
    // Afternoon.
    Scene {
        sky: [[170.0, 200.0, 225.0], [250.0, 240.0, 215.0]],
        hills: [[190.0, 180.0, 140.0], [110.0, 120.0, 80.0]],
    },
    // Night.
    Scene {
        sky: [[5.0, 8.0, 25.0], [40.0, 55.0, 95.0]],
        hills: [[25.0, 30.0, 55.0], [5.0, 6.0, 15.0]],
    },
    // Map.
    Scene {
        sky: [[215.0, 230.0, 225.0], [240.0, 235.0, 215.0]],
        hills: [[140.0, 190.0, 200.0], [50.0, 110.0, 100.0]],
    },
];

const HILLS: usize = 5;

/// The picture of this number, as PNG.
pub(super) fn landscape(number: u32, width: u32, height: u32) -> Result<Vec<u8>, Error> {
    let scene = &SCENES[number as usize % SCENES.len()];
    // By column and by row, not by pixel: a build for development is slow at arithmetic.
    let ridges: Vec<[u32; HILLS]> = (0..width)
        .map(|x| {
            let across = x as f32 / width as f32;
            std::array::from_fn(|hill| (ridge(hill, number, across) * height as f32) as u32)
        })
        .collect();
    let sky: Vec<Rgb<u8>> =
        (0..height).map(|y| mix(scene.sky, (y as f32 / height as f32 * 1.6).min(1.0))).collect();
    let hills: [Rgb<u8>; HILLS] =
        std::array::from_fn(|hill| mix(scene.hills, hill as f32 / (HILLS - 1) as f32));
    let picture = RgbImage::from_fn(width, height, |x, y| {
        let nearest = ridges[x as usize].iter().rposition(|ridge| y > *ridge);
        nearest.map_or(sky[y as usize], |hill| hills[hill])
    });
    let mut bytes = Cursor::new(Vec::new());
    picture
        .write_to(&mut bytes, ImageFormat::Png)
        .map_err(|error| Error::Upstream(error.to_string()))?;
    Ok(bytes.into_inner())
}

/// How far down the ridge of a hill is at `x`, both from 0 to 1.
fn ridge(hill: usize, number: u32, x: f32) -> f32 {
    let (near, shift) = (hill as f32 / HILLS as f32, (number as usize * 7 + hill * 3) as f32);
    let slow = (x * (3.0 + near * 4.0) + shift).sin() * 0.06;
    let quick = (x * (11.0 + shift % 5.0) + shift * 2.0).sin() * 0.015;
    0.5 + near * 0.45 + slow + quick
}

fn mix([from, to]: [Colour; 2], share: f32) -> Rgb<u8> {
    Rgb(std::array::from_fn(|part| (from[part] + (to[part] - from[part]) * share) as u8))
}
