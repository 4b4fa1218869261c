/// How the command line shows things: sizes, times, modes, and what JSON documents have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "client/cli/json.h"
#include "client/cli/servers.h"
#include "common/base/human_bytes.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::cli {

std::string counted(uint64_t count, std::string_view one,
                    std::string_view many = "");        ///< "1 file", "2 files"
std::string rate_text(uint64_t bytes, double seconds);  ///< "0.84 s, at 1.19 GiB/s"
std::string local_time(int64_t nanoseconds);            ///< "2026-01-31 17:05:09"
/// Shows the local time so many seconds from now, to the minute: "2026-01-31 17:05".
std::string time_in(double seconds);
std::string mode_text(const proto::Attributes& attributes);  ///< "drwxr-xr-x"
/// What is missing, in a sentence without an end; empty: nothing is, and all servers have said what they have.
std::string health_text(const proto::StripeHealth& health);
/// "3 servers have not reported all chunks yet: store-1, store-2, store-3"; empty: none.
std::string not_reported_text(const google::protobuf::RepeatedPtrField<proto::ServerName>& servers);
Json to_json(const proto::StripeHealth& health);
Json names_json(const google::protobuf::RepeatedPtrField<proto::ServerName>& servers);
/// Shows the chunks of a repair: "81:3", or "81:3,7" when one pass rebuilt several.
std::string chunks_text(const proto::RepairRecord& record);

// Server ids are strings in JSON, because they are 64 random bits and many readers hold numbers as doubles. Number and
// name of a server stand beside its id.
Json to_json(const proto::Attributes& attributes);
Json to_json(const proto::Stripe& stripe);
Json to_json(const proto::ServerState& server);
Json to_json(const proto::RepairRecord& record, const ServerNames& names);

}  // namespace kintsugi::cli
