/// Servers as people name them on the command line and see them in its output.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/cli/json.h"
#include "common/base/status.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::cli {

/// Finds the server that `text` means: a name, a number, or an id. kNotFound, kConflict (several servers claim the
/// name): one clear line that says which there are.
Result<proto::ServerState> find_server(const proto::ListServersResponse& servers, std::string_view text);

/// All servers by number.
std::vector<proto::ServerState> by_number(const proto::ListServersResponse& servers);

/// The columns that a table needs for the names of these servers; at least those of the heading NAME.
size_t name_width(const std::vector<proto::ServerState>& servers);

/// Numbers and names that came with an answer, by id.
class ServerNames {
 public:
  explicit ServerNames(const google::protobuf::RepeatedPtrField<proto::ServerName>& names);

  /// The name; the id when no name came with it.
  std::string name(uint64_t server_id) const;
  /// {"server_id": ..., "number": ..., "name": ...}; only the id when no name came with it.
  Json to_json(uint64_t server_id) const;

 private:
  std::map<uint64_t, proto::ServerName> names_;
};

}  // namespace kintsugi::cli
