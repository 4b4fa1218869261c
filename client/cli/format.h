/// How the command line shows things: sizes, times, modes, and the shared JSON shapes.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common/proto/meta.pb.h"

namespace kintsugi::cli {

std::string human_bytes(uint64_t bytes);                           ///< "384.0 MiB"
std::string local_time(int64_t nanoseconds);                       ///< "2026-01-31 17:05:09"
std::string mode_text(const proto::Attributes& attributes);        ///< "drwxr-xr-x"
std::string liveness_text(proto::ServerState::Liveness liveness);  ///< "alive", "suspect", "dead"
/// "0.84 s, at 1.19 GiB/s"
std::string rate_text(uint64_t bytes, double seconds);
std::string chunks_text(
    const proto::RepairRecord& record);  ///< "81:3", "81:3,7" when one pass rebuilt several

// Server ids are 64-bit and random: strings, because many JSON readers hold numbers as doubles.
nlohmann::ordered_json to_json(const proto::Attributes& attributes);
nlohmann::ordered_json to_json(const proto::Stripe& stripe);
nlohmann::ordered_json to_json(const proto::ServerState& server);
nlohmann::ordered_json to_json(const proto::RepairRecord& record);

/// One document on stdout.
void print_json(const nlohmann::ordered_json& document);

}  // namespace kintsugi::cli
