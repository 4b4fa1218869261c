/// The process that a verdict is about.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "common/proto/sight.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::gray {

struct Party {
  uint64_t process = 0, server_id = 0;
  std::string name, kind;
};

/// A verdict of this kind about it.
inline proto::Verdict about(const Party& who, proto::Verdict::Kind kind, Duration since,
                            proto::Verdict::Confidence confidence) {
  proto::Verdict verdict;
  verdict.set_kind(kind);
  verdict.set_server(who.name);
  verdict.set_server_id(who.server_id);
  verdict.set_process(who.process);
  verdict.set_process_kind(who.kind);
  verdict.set_since_ns(static_cast<uint64_t>(std::max<int64_t>(0, since.count())));
  verdict.set_confidence(confidence);
  verdict.set_probability(confidence == proto::Verdict::CERTAIN ? 0.995 : 0.95);
  return verdict;
}

/// A PAUSES verdict about it, or about a disk of it.
inline proto::Verdict pauses(const Party& who, Duration since, proto::Verdict::Confidence confidence) {
  return about(who, proto::Verdict::PAUSES, since, confidence);
}

}  // namespace kintsugi::gray
