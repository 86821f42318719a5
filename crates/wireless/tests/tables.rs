//! Rates, SNR steps, noise, path loss and training times against their sources.

use mp_wireless::antenna::Codebook;
use mp_wireless::budget::{free_space_db, noise_dbm, path_loss_db};
use mp_wireless::mac::Aggregation;
use mp_wireless::mcs::{Phy, CONTROL, CONTROL_SENSITIVITY_DBM};
use mp_wireless::training::{all_devices_us, sector_sweep_us, selected_devices_us, Sweep};

/// As the tables are published: index, Mbit/s of one stream in one channel, dB.
const SC: &str = "1 385/-1.9 · 2 770/0.5 · 3 962.5/2.0 · 4 1155/3.2 · 5 1251.25/4.2 · 6 1347.5/5.5 · 7 1540/3.5 · 8 1925/4.9 · \
9 2310/6.2 · 10 2502.5/7.4 · 11 2695/8.5 · 12 3080/9.4 · 13 3850/11.2 · 14 4620/12.9 · 15 5005/13.8 · 16 5390/15.1 · \
17 4620/14.2 · 18 5775/16.2 · 19 6930/18.2 · 20 7507.5/19.5 · 21 8085/21.0";
const OFDM: &str = "1 792/0.5 · 2 990/2.0 · 3 1188/3.3 · 4 1287/4.3 · 5 1386/5.6 · 6 1584/3.6 · 7 1980/4.9 · 8 2376/6.3 · \
9 2574/7.2 · 10 2772/8.5 · 11 3168/9.4 · 12 3960/11.2 · 13 4752/12.7 · 14 5148/13.9 · 15 5544/15.2 · 16 4752/14.2 · \
17 5940/16.2 · 18 7128/18.3 · 19 7722/19.6 · 20 8316/21.2";

#[test]
fn tables_are_those_of_the_public_model() {
    for (phy, text) in [(Phy::EdmgSc, SC), (Phy::EdmgOfdm, OFDM)] {
        let rows: Vec<&str> = text.split(" · ").collect();
        assert_eq!(rows.len(), phy.table().len());
        for (mcs, row) in phy.table().iter().zip(rows) {
            assert_eq!(
                format!("{} {}/{:.1}", mcs.index, mcs.rate_mbps, mcs.snr_db),
                row
            );
        }
    }
    assert_eq!((CONTROL.rate_mbps, CONTROL.snr_db), (27.5, -11.3));
    assert_eq!(CONTROL_SENSITIVITY_DBM, -78.0);
}

#[test]
fn bonding_multiplies_single_carrier_by_channels_and_ofdm_by_subcarriers() {
    let top = |phy: Phy, n| phy.rate_mbps(phy.table().last().unwrap(), n);
    assert_eq!(top(Phy::EdmgSc, 4), 32_340.0);
    for (n, gbit) in [(1, 8.316), (2, 18.17), (3, 28.07), (4, 37.92)] {
        let rate = top(Phy::EdmgOfdm, n) / 1000.0;
        assert!((rate - gbit).abs() < 0.01, "{n} channels: {rate}");
    }
    assert_eq!(top(Phy::Dmg, 4), 4620.0, "802.11ad bonds nothing");
}

#[test]
fn each_rate_starts_at_its_snr() {
    for phy in [Phy::EdmgSc, Phy::EdmgOfdm] {
        for mcs in phy.table() {
            let rate = |snr| phy.best(snr, 0.0).map_or(0.0, |m| m.rate_mbps);
            assert!(rate(mcs.snr_db) >= mcs.rate_mbps);
            // Dominated rows (less rate for more SNR) are never chosen; the others step up exactly here.
            let dominated = phy
                .table()
                .iter()
                .any(|o| o.snr_db <= mcs.snr_db && o.rate_mbps > mcs.rate_mbps);
            if !dominated {
                assert_eq!(rate(mcs.snr_db), mcs.rate_mbps, "{phy:?} {}", mcs.index);
                assert!(
                    rate(mcs.snr_db - 1e-6) < mcs.rate_mbps,
                    "{phy:?} {}",
                    mcs.index
                );
            }
        }
    }
    assert!(Phy::EdmgSc.best(-2.0, 0.0).is_none());
}

#[test]
fn ad_needs_its_sensitivity_too() {
    let rate = |dbm| Phy::Dmg.best(40.0, dbm).map(|m| m.index);
    assert_eq!(rate(-53.0), Some(12));
    assert_eq!(rate(-53.01), Some(11));
    assert_eq!(rate(-58.99), Some(9));
    assert_eq!(
        rate(-63.5),
        Some(4),
        "QPSK at −63 is out of reach, BPSK 3/4 at −64 is not"
    );
    assert_eq!(rate(-68.0), Some(1));
    assert_eq!(rate(-68.1), None);
}

#[test]
fn free_space_is_friis() {
    for distance in [0.5, 1.0, 7.0, 100.0] {
        let wavelength = 299_792_458.0 / 60.48e9;
        let ratio: f64 = wavelength / (4.0 * std::f64::consts::PI * distance);
        assert!((free_space_db(distance) + 20.0 * ratio.log10()).abs() < 1e-9);
    }
    assert!((free_space_db(1.0) - 68.08).abs() < 0.01);
    let oxygen = path_loss_db(1000.0, true) - free_space_db(1000.0);
    assert!((oxygen - 15.0).abs() < 1e-9, "15 dB a kilometre");
    let slope = path_loss_db(20.0, false) - path_loss_db(10.0, false);
    assert!(
        (slope - 32.0 * 2f64.log10() - 0.15).abs() < 1e-9,
        "d^3.2 out of sight"
    );
}

#[test]
fn noise_grows_with_bonded_channels() {
    for n in [2, 3, 4] {
        let more = noise_dbm(n, 10.0) - noise_dbm(1, 10.0);
        assert!((more - 10.0 * f64::from(n).log10()).abs() < 1e-9);
    }
    assert!((noise_dbm(1, 10.0) + 71.54).abs() < 0.01);
}

#[test]
fn the_codebook_has_27_sectors_and_three_decibels_at_half_width() {
    let book = Codebook::default();
    assert_eq!((book.sectors(), book.beams()), (27, 54));
    let peak = book.gain_dbi(13, 0.0, 0.0);
    assert_eq!(book.direction(13), (0.0, 0.0));
    assert_eq!(peak, book.peak_dbi());
    assert!((peak - book.gain_dbi(13, 10.0, 0.0) - 3.01).abs() < 1e-9);
    assert!((peak - book.gain_dbi(13, 0.0, -22.5) - 3.01).abs() < 1e-9);
    assert_eq!(book.gain_dbi(13, 180.0, 0.0), book.side_dbi());
    // All around, some beam looks there.
    for azimuth in 0..360 {
        assert!(
            book.best(f64::from(azimuth), 10.0).1 > peak - 4.5,
            "{azimuth}"
        );
    }
}

#[test]
fn sweeps_take_the_sum_of_their_frames() {
    // Two sweeps of 27 frames with 26 gaps of 1 µs, three gaps of 9 µs, feedback and acknowledgement.
    let by_hand = 2.0 * (27.0 * 14.909 + 26.0) + 27.0 + 2.0 * 18.255;
    assert!((sector_sweep_us(Sweep::Ssw, 27, 27) - by_hand).abs() < 1e-9);
    let edmg = 2.0 * (27.0 * 19.273 + 26.0) + 27.0 + 2.0 * 24.945;
    assert!((sector_sweep_us(Sweep::EdmgSsw, 27, 27) - edmg).abs() < 1e-9);
    let more = all_devices_us(11, 27) - all_devices_us(10, 27);
    assert!((more - (27.0 * 14.909 + 26.0 + 18.0 + 18.255)).abs() < 1e-9);
    assert!(
        selected_devices_us(3, 27) < all_devices_us(4, 27),
        "polling costs, choosing saves"
    );
}

#[test]
fn aggregation_makes_the_mac_efficient() {
    let share = |aggregation: Aggregation, phy| aggregation.exchange(phy, 0.0).rate_mbps() / phy;
    let standard = Aggregation::default();
    let none = Aggregation {
        amsdu: 1,
        block_ack: 1,
        ..standard
    };
    assert!(share(standard, 32_340.0) > 0.8);
    assert!(
        share(none, 32_340.0) < 0.01,
        "a packet an exchange wastes the channel"
    );
    // No PPDU is longer than 2 ms: at slow rates fewer MPDUs go out at once.
    assert!(standard.exchange(385.0, 0.0).airtime_us < 2.0 * 2000.0 + 200.0);
    let lossy = standard.exchange(32_340.0, 0.4);
    assert!((lossy.rate_mbps() / standard.exchange(32_340.0, 0.0).rate_mbps() - 0.6).abs() < 1e-12);
    assert!((standard.residual_loss(0.4) - 0.4f64.powi(8)).abs() < 1e-15);
}
