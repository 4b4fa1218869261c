/// fsck answers in pages; the next request repeats where the last page ended.
#pragma once

#include "common/proto/meta.pb.h"

namespace kintsugi::client {

/// REQUIRES: page.more(), or the page is empty, which asks for the first one.
inline void continue_after(const proto::FsckResponse& page, proto::FsckRequest& request) {
  request.set_after(page.next_after());
  request.set_from_offset(page.next_from_offset());
}

}  // namespace kintsugi::client
