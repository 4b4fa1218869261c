/// One end of a TLS connection without its connection: encrypted bytes go in and out through buffers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/runtime/clock.h"
#include "common/runtime/network.h"
#include "common/runtime/tls/tls_identity.h"

struct ssl_st;

namespace kintsugi::runtime {

/// The end of a server of pages lets clients in that show no certificate; one that they show has to be good.
enum class TlsEnd { kClient, kServer, kPages };

/// What one end knows of the other, for its sentences on failures.
struct TlsPeer {
  TlsEnd own_end;
  std::string host;     ///< what was dialled; empty at the server's end
  WallTime now;         ///< certificates have to be valid then
  std::string refusal;  ///< why its certificate is refused here; empty: it is not
};

class TlsSession {
 public:
  static constexpr size_t kRecordBytes = 16 << 10;  ///< most plain bytes of one record
  /// AES-GCM is safe for 2^24.5 full records under one key (RFC 8446, section 5.5).
  static constexpr uint64_t kRecordsOfAKey = uint64_t{1} << 23;

  /// `host`: the client's end demands that the server's certificate is for this name or address. Certificates have to be
  /// valid at `now`.
  TlsSession(std::shared_ptr<const TlsIdentity> identity, TlsEnd end, std::string host, WallTime now);
  ~TlsSession();
  TlsSession(const TlsSession&) = delete;
  TlsSession& operator=(const TlsSession&) = delete;

  /// Goes on with the handshake as far as the input reaches; true: it is over. kPermissionDenied: one end refuses the
  /// other's certificate. kInvalidArgument: the peer speaks no TLS, or another version. After an error, too, the output
  /// is for the peer.
  Result<bool> shake_hands();
  /// Decrypts as much as `into` and the input have room and bytes for. 0: more input is needed, or the peer has ended the
  /// stream. REQUIRES of this and the next: the handshake is over.
  Result<size_t> read(std::span<std::byte> into);
  Status write(std::span<const std::byte> bytes);
  /// kNothing before the handshake is over.
  PeerProof peer_proof() const;
  bool ended() const { return ended_; }  ///< the peer said that it sends nothing more

  /// Where input of about this many bytes is to be put; at least one byte. Valid until the next call of anything here
  /// that takes input.
  std::span<std::byte> room(size_t wanted);
  void filled(size_t bytes) { input_end_ += bytes; }
  /// Input that was not used yet.
  std::span<const std::byte> input() const {
    return std::span(input_).subspan(input_begin_, input_end_ - input_begin_);
  }
  /// What is to be sent. Whoever sends it swaps it for an empty one.
  std::vector<std::byte>& output() { return output_; }

  uint64_t records_of_a_key = kRecordsOfAKey;  ///< after so many the key of this end's direction is replaced

 private:
  friend struct SessionBio;  ///< the way of OpenSSL to the buffers

  const std::shared_ptr<const TlsIdentity> identity_;
  TlsPeer peer_;
  ssl_st* ssl_ = nullptr;
  std::vector<std::byte> input_, output_;
  size_t input_begin_ = 0, input_end_ = 0;
  uint64_t records_ = 0;  ///< sent under the key of now
  bool ended_ = false;
  Status broken_;  ///< why nothing can be read any more
};

}  // namespace kintsugi::runtime
