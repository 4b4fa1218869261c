#include "repair_manager/plan/slots.h"

#include "common/base/assert.h"

namespace kintsugi::repair_manager {

void SlotTable::acquire(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
                        std::span<const double> shares, bool urgent) {
  for (ServerId helper : helpers)
    KINTSUGI_ASSERT(can_help(helper, urgent));
  KINTSUGI_ASSERT(can_receive(destination, urgent));
  add_helpers(helpers, shares, urgent);
  add_destination(destination, bytes, urgent);
}

void SlotTable::release(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
                        std::span<const double> shares, bool urgent) {
  remove_helpers(helpers, shares, urgent);
  remove_destination(destination, bytes, urgent);
}

void SlotTable::add_helpers(std::span<const ServerId> helpers, std::span<const double> shares, bool urgent) {
  for (size_t i = 0; i < helpers.size(); ++i) {
    ServerLoad& load = loads_[helpers[i]];
    ++load.as_helper;
    load.helper_share += shares.empty() ? 1 : shares[i];
    if (urgent) load.urgent_share += shares.empty() ? 1 : shares[i];
  }
}

void SlotTable::remove_helpers(std::span<const ServerId> helpers, std::span<const double> shares,
                               bool urgent) {
  for (size_t i = 0; i < helpers.size(); ++i) {
    ServerLoad& load = loads_.at(helpers[i]);
    KINTSUGI_ASSERT(load.as_helper > 0);
    --load.as_helper;
    load.helper_share -= shares.empty() ? 1 : shares[i];
    if (urgent) load.urgent_share -= shares.empty() ? 1 : shares[i];
    if (load.repairs() == 0) loads_.erase(helpers[i]);
  }
}

void SlotTable::add_destination(ServerId destination, uint64_t bytes, bool urgent) {
  ServerLoad& load = loads_[destination];
  ++load.as_destination;
  load.urgent_destinations += urgent;
  load.incoming_bytes += bytes;
}

void SlotTable::remove_destination(ServerId destination, uint64_t bytes, bool urgent) {
  ServerLoad& load = loads_.at(destination);
  KINTSUGI_ASSERT(load.as_destination > 0 && load.incoming_bytes >= bytes);
  --load.as_destination;
  load.urgent_destinations -= urgent;
  load.incoming_bytes -= bytes;
  if (load.repairs() == 0) loads_.erase(destination);
}

}  // namespace kintsugi::repair_manager
