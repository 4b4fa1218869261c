/// What a daemon shows of its recorder: Prometheus histograms for /metrics, and /debug pages for people and
/// tools.
#pragma once

#include <memory>
#include <string>

#include "monitoring/sight/recorder.h"

namespace prometheus {
class Collectable;
}

namespace kintsugi::sight {

/// One histogram, kintsugi_module_seconds{path="...",module="..."}, and kintsugi_module_errors_total.
/// `recorder` must outlive it.
std::shared_ptr<prometheus::Collectable> make_collectable(const Recorder& recorder);

/// A table of all calling contexts: count, errors, mean, 50th and 99th percentile (upper bounds of their
/// buckets).
std::string render_paths(const Recorder& recorder);

/// The newest events as a JSON array: name, trace, span, parent, start and duration in nanoseconds, inputs,
/// outputs, code.
std::string render_events_json(const Recorder& recorder, size_t at_most);

}  // namespace kintsugi::sight
