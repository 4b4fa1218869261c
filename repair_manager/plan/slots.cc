#include "repair_manager/plan/slots.h"

#include "common/base/assert.h"

namespace kintsugi::repair_manager {

void SlotTable::acquire(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
                        std::span<const double> shares) {
  for (ServerId helper : helpers)
    KINTSUGI_ASSERT(can_help(helper));
  KINTSUGI_ASSERT(can_receive(destination));
  add_helpers(helpers, shares);
  add_destination(destination, bytes);
}

void SlotTable::release(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
                        std::span<const double> shares) {
  remove_helpers(helpers, shares);
  remove_destination(destination, bytes);
}

void SlotTable::add_helpers(std::span<const ServerId> helpers, std::span<const double> shares) {
  for (size_t i = 0; i < helpers.size(); ++i) {
    ServerLoad& load = loads_[helpers[i]];
    ++load.as_helper;
    load.helper_share += shares.empty() ? 1 : shares[i];
  }
}

void SlotTable::remove_helpers(std::span<const ServerId> helpers, std::span<const double> shares) {
  for (size_t i = 0; i < helpers.size(); ++i) {
    ServerLoad& load = loads_.at(helpers[i]);
    KINTSUGI_ASSERT(load.as_helper > 0);
    --load.as_helper;
    load.helper_share -= shares.empty() ? 1 : shares[i];
    if (load.repairs() == 0) loads_.erase(helpers[i]);
  }
}

void SlotTable::add_destination(ServerId destination, uint64_t bytes) {
  ServerLoad& load = loads_[destination];
  ++load.as_destination;
  load.incoming_bytes += bytes;
}

void SlotTable::remove_destination(ServerId destination, uint64_t bytes) {
  ServerLoad& load = loads_.at(destination);
  KINTSUGI_ASSERT(load.as_destination > 0 && load.incoming_bytes >= bytes);
  --load.as_destination;
  load.incoming_bytes -= bytes;
  if (load.repairs() == 0) loads_.erase(destination);
}

}  // namespace kintsugi::repair_manager
