#include "client/mount/mount_report.h"

#include "client/mount/kernel/operations/operation_kinds.h"

namespace kintsugi::mount {

void MountReport::look() {
  const client::OpenFiles::Traffic now = files_.traffic();
  const std::lock_guard lock(mutex_);
  noted_ = now;
}

void MountReport::tell(proto::SightReport& report) const {
  client::OpenFiles::Traffic traffic;
  {
    const std::lock_guard lock(mutex_);
    traffic = noted_;
  }
  proto::SightMount& mount = *report.mutable_mount();
  mount.set_directory(directory_);
  mount.set_trace_address(trace_address_);
  mount.set_read_bytes(traffic.read_bytes);
  mount.set_written_bytes(traffic.written_bytes);
  mount.set_fetched_bytes(traffic.fetched_bytes);
  mount.set_dirty_bytes(traffic.dirty_bytes);
  mount.set_room_waits(traffic.room_waits);
  tell_operations(recorder_.totals(), mount);
}

}  // namespace kintsugi::mount
