//! The geometry of a surface: a grid of heights as it is seen from a corner, in pieces that are painted from back to front.

use std::collections::BTreeMap;

/// How high the highest point is drawn, as a share of the depth of the floor.
const HEIGHT: f64 = 0.8;

/// A place on the page: to the right and upwards, both from 0 to 1 for what is within the unit box.
pub(super) type Place = [f64; 2];

/// Where a point of the unit box is seen, from above the corner at which x and y are 1.
pub(super) fn project(x: f64, y: f64, z: f64) -> Place {
    [(x - y) / 2.0 + 0.5, (1.0 - (x + y) / 2.0 + z * HEIGHT) / (1.0 + HEIGHT)]
}

/// Heights over a grid, by the indices of their levels.
pub(super) struct Grid {
    pub(super) size: (usize, usize),
    pub(super) heights: BTreeMap<(usize, usize), f64>,
    /// Whether x and y are looked at from their other end.
    turned: (bool, bool),
    most: f64,
}

/// A piece of a surface between four neighbours.
#[derive(Debug, PartialEq)]
pub(super) struct Piece {
    /// Its corners, in turn.
    pub(super) corners: [Place; 4],
    /// Mean height of its corners.
    pub(super) mean: f64,
    /// Indices of its corner with the lowest levels.
    pub(super) at: (usize, usize),
}

impl Grid {
    /// A grid that is seen from where the least of it is hidden: with what is high at the back.
    pub(super) fn new(size: (usize, usize), heights: BTreeMap<(usize, usize), f64>) -> Self {
        let most = heights.values().copied().fold(0.0, f64::max);
        let mut grid = Grid { size, heights, turned: (false, false), most };
        let turns = [(false, false), (true, false), (false, true), (true, true)];
        let in_front = |grid: &Grid| -> f64 {
            let weight = |(at, height): (&(usize, usize), &f64)| {
                let (x, y) = grid.ground(*at);
                height * (x + y)
            };
            grid.heights.iter().map(weight).sum()
        };
        let seen = turns.map(|turned| {
            grid.turned = turned;
            (in_front(&grid), turned)
        });
        let best = seen.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
        grid.turned = best.map_or((false, false), |(_, turned)| turned);
        grid
    }

    /// Where levels are on the floor.
    pub(super) fn ground(&self, (x, y): (usize, usize)) -> (f64, f64) {
        let share = |index: usize, count: usize, turned: bool| {
            let share = index as f64 / count.saturating_sub(1).max(1) as f64;
            if turned { 1.0 - share } else { share }
        };
        (share(x, self.size.0, self.turned.0), share(y, self.size.1, self.turned.1))
    }

    /// The highest height there is.
    pub(super) fn most(&self) -> f64 {
        self.most
    }

    /// Where a height at levels is seen.
    pub(super) fn place(&self, at: (usize, usize), height: f64) -> Place {
        let (x, y) = self.ground(at);
        project(x, y, if self.most > 0.0 { height / self.most } else { 0.0 })
    }

    /// The pieces whose four corners are known, from back to front.
    pub(super) fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for x in 0..self.size.0.saturating_sub(1) {
            for y in 0..self.size.1.saturating_sub(1) {
                let corners = [(x, y), (x + 1, y), (x + 1, y + 1), (x, y + 1)];
                let Some(heights) = self.known(corners) else { continue };
                let place = |index: usize| self.place(corners[index], heights[index]);
                let mean = heights.iter().sum::<f64>() / 4.0;
                pieces.push(Piece { corners: [0, 1, 2, 3].map(place), mean, at: (x, y) });
            }
        }
        let near = |piece: &Piece| {
            let (x, y) = self.ground(piece.at);
            x + y
        };
        pieces.sort_by(|a, b| near(a).total_cmp(&near(b)));
        pieces
    }

    fn known(&self, corners: [(usize, usize); 4]) -> Option<[f64; 4]> {
        let [a, b, c, d] = corners.map(|corner| self.heights.get(&corner).copied());
        Some([a?, b?, c?, d?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Heights that rise with both levels, or with what they are given.
    fn grid(size: (usize, usize), height: impl Fn(usize, usize) -> f64) -> Grid {
        let all = (0..size.0).flat_map(|x| (0..size.1).map(move |y| (x, y)));
        Grid::new(size, all.map(|(x, y)| ((x, y), height(x, y))).collect())
    }

    #[test]
    fn the_corners_of_the_box_are_where_an_isometric_view_has_them() {
        // The far corner of the floor is in the middle, the near one at the bottom.
        assert_eq!(project(1.0, 1.0, 0.0), [0.5, 0.0]);
        assert_eq!(project(0.0, 0.0, 1.0), [0.5, 1.0]);
        assert_eq!((project(1.0, 0.0, 0.0)[0], project(0.0, 1.0, 0.0)[0]), (1.0, 0.0));
        assert_eq!(project(1.0, 0.0, 0.0)[1], project(0.0, 1.0, 0.0)[1]);
    }

    #[test]
    fn what_is_near_is_painted_over_what_is_far() {
        let grid = grid((3, 4), |x, y| 10.0 - (x + y) as f64);
        let pieces = grid.pieces();
        assert_eq!(pieces.len(), 2 * 3);
        // High at low levels: nothing is turned, so the last piece is that of the highest levels.
        assert_eq!((pieces[0].at, pieces[5].at, grid.ground((2, 3))), ((0, 0), (1, 2), (1.0, 1.0)));
        let lowest = |piece: &Piece| piece.corners.iter().map(|corner| corner[1]).fold(1.0, f64::min);
        assert!(pieces.windows(2).all(|pair| lowest(&pair[1]) <= lowest(&pair[0]) + 0.5));
        assert_eq!(pieces[0].mean, (10.0 + 9.0 + 8.0 + 9.0) / 4.0);
        assert_eq!(pieces[0].corners[0], project(0.0, 0.0, 1.0));
        assert!(pieces.iter().flat_map(|piece| piece.corners).flatten().all(|at| (0.0..=1.0).contains(&at)));
    }

    #[test]
    fn a_surface_is_looked_at_from_its_low_side() {
        let grid = grid((3, 3), |x, y| (x * x + 2 - y) as f64);
        assert_eq!((grid.ground((0, 0)), grid.ground((2, 2))), ((1.0, 0.0), (0.0, 1.0)));
        assert_eq!(grid.pieces().last().unwrap().at, (0, 1));
        assert_eq!(grid.place((2, 0), grid.most()), project(0.0, 0.0, 1.0));
    }

    #[test]
    fn pieces_that_miss_a_corner_are_left_out() {
        let heights = BTreeMap::from([((0, 0), 1.0), ((1, 0), 2.0), ((0, 1), 3.0)]);
        assert_eq!(Grid::new((2, 2), heights).pieces(), []);
        let nothing = grid((2, 2), |_, _| 0.0);
        assert!(nothing.pieces()[0].corners.iter().flatten().all(|at| at.is_finite()));
        assert_eq!(grid((1, 5), |_, _| 1.0).pieces(), []);
    }
}
