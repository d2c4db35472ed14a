//! A port's wire: where the model and the traffic meet.

use std::sync::Arc;
use std::time::Instant;

use model::Wire;

use super::{FrameSet, Traffic};

/// The wire of one port.
pub struct TrafficWire {
    traffic: Arc<Traffic>,
    port: usize,
    frames: Option<FrameSet>,
}

impl TrafficWire {
    /// The wire of port `port`.
    pub fn new(traffic: &Arc<Traffic>, port: usize) -> Self {
        let frames = traffic.state().directions.get(port).and_then(|direction| direction.frames().cloned());
        Self { traffic: traffic.clone(), port, frames }
    }
}

impl Wire for TrafficWire {
    fn transmit(&mut self, frame: &[u8]) {
        let mut guard = self.traffic.state();
        let state = &mut *guard;
        let ports = state.directions.len();
        if let Some(direction) = state.directions.get_mut(self.port) {
            direction.sent_by_port += 1;
        }
        if let Some(Some(out)) = state.out.get_mut(self.port) {
            out.frame(frame);
        }
        // Pairs go both ways, so the port that received is the partner of the one that sends.
        let Some(direction) = state.directions.get_mut(state.rules.out_port(self.port, ports)) else {
            return;
        };
        let rules = &state.rules;
        match rules.is_made(self.port, frame) {
            Some(right) => direction.generated(frame.len(), right),
            None => {
                direction.back(frame.len(), |sent| rules.is_right(self.port, sent, frame));
            }
        }
        let drained = direction.under_way() == 0;
        let now = Instant::now();
        state.times.first.get_or_insert(now);
        state.times.last = Some(now);
        drop(guard);
        if drained {
            self.traffic.changed.notify_all();
        }
    }

    fn receive(&mut self) -> Option<&[u8]> {
        let mut guard = self.traffic.state();
        let state = &mut *guard;
        if !state.running {
            return None;
        }
        let (in_flight, rules) = (state.in_flight, &state.rules);
        let out = rules.out_port(self.port, state.directions.len());
        let direction = state.directions.get_mut(self.port)?;
        let index = direction.send(in_flight, |frame| rules.returns(out, frame))?;
        let finished = direction.finished();
        drop(guard);
        if finished {
            self.traffic.changed.notify_all();
        }
        self.frames.as_ref()?.get(index)
    }
}
