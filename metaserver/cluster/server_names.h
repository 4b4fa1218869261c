/// The numbers and names that people call servers by.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "common/base/ids.h"
#include "common/proto/store.pb.h"
#include "common/proto/types.pb.h"

namespace kintsugi::metaserver {

/// A number belongs to one server for as long as this metadata exists: a server that is removed keeps it. A name is
/// what the server says, so that several may claim the same one, as when a server's disks were replaced and the former
/// server is not removed yet. Then it is shown for the first of them that is not dead, by number, and the others are
/// "name#number".
class ServerNames {
 public:
  enum class Standing { kLiving, kDead, kRemoved };

  /// Takes number and name from the record, whenever one of these or the standing may have changed.
  void put(ServerId server, const proto::StoredServer& stored, Standing standing);

  /// A number for a server that has none: `wanted` if it is free and no more than kMaxWantedServerNumber, or else one
  /// greater than all that there are.
  uint32_t free_number(uint32_t wanted) const;

  /// Returns what the server is shown as; its id when it was never here.
  std::string name(ServerId server) const;
  proto::ServerName of(ServerId server) const;

 private:
  struct Known {
    uint32_t number = 0;
    std::string claimed;  ///< name without "#number"
    Standing standing = Standing::kLiving;
  };
  /// The servers that claim a name, by number; removed servers claim none.
  struct Claims {
    std::set<std::pair<uint32_t, ServerId>> servers;
    ServerId holder;  ///< the server that bears the name
  };
  void choose_holder(Claims& claims) const;
  void release(ServerId server, const Known& known);

  std::unordered_map<ServerId, Known> known_;
  std::unordered_map<std::string, Claims> claims_;
  std::map<uint32_t, ServerId> numbers_;
};

}  // namespace kintsugi::metaserver
