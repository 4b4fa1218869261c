/// A mount tells the monitor what it did, in the reports that it sends anyway.
#pragma once

#include <mutex>
#include <string>
#include <utility>

#include "client/lib/files/open_files.h"
#include "common/proto/sight.pb.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::mount {

class MountReport {
 public:
  /// References outlive it.
  /// `trace_address`: where the mount is asked to trace itself; empty: nowhere.
  MountReport(const sight::Recorder& recorder, const client::OpenFiles& files, std::string directory,
              std::string trace_address)
      : recorder_(recorder),
        files_(files),
        directory_(std::move(directory)),
        trace_address_(std::move(trace_address)) {}

  /// Notes what the files say now. On their thread.
  void look();
  /// Adds what was noted last, and the operations. May be called from any thread.
  void tell(proto::SightReport& report) const;

 private:
  const sight::Recorder& recorder_;
  const client::OpenFiles& files_;
  const std::string directory_, trace_address_;
  mutable std::mutex mutex_;  ///< guards noted_
  client::OpenFiles::Traffic noted_{};
};

}  // namespace kintsugi::mount
