#include "metaserver/cluster/repair_limit.h"

namespace kintsugi::metaserver {

void RepairLimit::store(Transaction& transaction, uint64_t bytes_per_second) {
  auto cluster = transaction.get_message<proto::StoredCluster>(keys::cluster());
  if (!cluster) return;
  cluster->set_repair_limit_bytes_per_second(bytes_per_second);
  transaction.put_message(keys::cluster(), *cluster);
}

}  // namespace kintsugi::metaserver
