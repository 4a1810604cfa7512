// LMS and HSS (RFC 8554, RFC 9858, SP 800-208): nodes of a tree from its seed, and verification of a batch.
//
//   nodes    Chains (thread a chain) -> Leaf (thread a leaf) -> Tree, level by level (thread a pair)
//            -> Finish (thread a node)
//   verify   Digest (thread a part) -> Chains (thread a chain) -> Leaf (thread a part) -> Climb (thread a part)
//
// A part is one tree's signature; a signature of HSS has one a level, none of which waits for another. Values of chains
// stand side by side, and nodes too: what a pair of neighbours comes to takes the place of its left one, so that at
// height k a tree's nodes are 2^k apart. Secret are SEED and what chains pass through up to their ends.
#pragma once

#include "hbs.cuh"

namespace gabion {

// A hash function and n (RFC 8554, section 4.1; SP 800-208, section 4).
template <class Hash_, unsigned N_> struct LmsSet {
    using Hash = Hash_;
    static constexpr unsigned BYTES = N_, WORDS = N_ / 4;
    using Value = uint32_t[WORDS];
};

// What a part is, and how its bytes lie in `input`.
struct LmsPart {
    uint64_t values;         // where the values of its chains begin
    uint64_t path;           // where the path begins
    uint64_t message;        // where the message of the digest begins: I || u32str(q) || u16str(D_MESG) || C || message
    uint32_t message_length;
    uint32_t q;              // the leaf
    uint32_t height;         // of the tree
    uint32_t reserved;
};

// All parts of a launch are of one set of LM-OTS.
struct LmsArguments {
    const uint8_t *keys;  // I || T[1] of each part; nodes: I || SEED of two trees, the second one the canary's
    const uint8_t *input; // signatures, and messages of digests; at any address
    const LmsPart *parts; // verify: of each op
    uint8_t *digests;     // verify: Q and its checksum, 64 bytes an op
    uint32_t *values;     // [leaf][chain][word]
    uint32_t *nodes;      // [leaf][word]
    uint8_t *out;         // nodes: n bytes each
    uint32_t *status;     // a Verdict an op
    uint32_t w;           // bits of a digit
    uint32_t chains;      // p
    uint32_t shift;       // ls
    uint32_t first;       // nodes: the first leaf
    uint32_t base;        // nodes: the number of leaf 0 in its tree, 2^h
    uint32_t low;         // nodes: how high above the leaves
    uint32_t level;       // of Tree: the height of the children
    uint32_t n;           // nodes with the canary's; or parts
    uint32_t generation;
    uint32_t reserved;
};

// What a hash is of (RFC 8554, section 7.1), and what stands in the place of a step where a chain begins (appendix A).
static constexpr uint32_t LMS_D_PBLC = 0x8080, LMS_D_LEAF = 0x8282, LMS_D_INTR = 0x8383, LMS_OF_SECRET = 0xff;

// Leaves of nodes, without the canary's.
GABION_FN uint32_t lms_leaves(const LmsArguments &a) { return (a.n - 1) << a.low; }

// Leaves, or parts.
GABION_FN uint32_t lms_all(const LmsArguments &a) { return a.parts == nullptr ? lms_leaves(a) + 1 : a.n; }

// Which key a leaf is of, its number, and that of its tree's leaf 0 among the nodes.
struct LmsLeafPlace {
    const uint8_t *id;
    uint32_t q;
    uint32_t base;
};

// The canary of nodes has one leaf, the first one of a tree that is five high.
template <class P> GABION_FN LmsLeafPlace lms_place(const LmsArguments &a, uint32_t i) {
    constexpr size_t KEY = 16 + P::BYTES;
    if (a.parts != nullptr)
        return LmsLeafPlace{a.keys + KEY * i, a.parts[i].q, 1u << a.parts[i].height};
    if (i == lms_leaves(a))
        return LmsLeafPlace{a.keys + KEY, 0, 32};
    return LmsLeafPlace{a.keys, a.first + i, a.base};
}

// --- Hashes ---------------------------------------------------------------------------------------------------------

// I || u32str(number) into the first words of a message.
template <class Hash, unsigned WORDS> GABION_FN void lms_begin(const uint8_t *id, uint32_t x, uint32_t (&m)[WORDS]) {
    uint32_t words[4];
    from_bytes<Hash>(id, words);
#pragma unroll
    for (unsigned i = 0; i < 4; i++)
        m[i] = words[i];
    m[4] = number<Hash>(x);
}

// Words that begin so many bytes within a word: the rest of one, and the beginning of the next.
template <class Hash, unsigned BYTES> GABION_FN uint32_t lms_joined(uint32_t before, uint32_t behind) {
    return Hash::IS_BIG ? before << (32 - 8 * BYTES) | behind >> (8 * BYTES) : before >> (32 - 8 * BYTES) | behind << (8 * BYTES);
}

// Two bytes, or three, at the beginning of a word.
template <class Hash> GABION_FN uint32_t lms_u16(uint32_t x) { return number<Hash>(x << 16); }

// H(I || u32str(number) || u16str(what) || y): 22 bytes, so that y's words begin in the middle of words.
template <class P, unsigned COUNT>
GABION_FN void lms_hash(const uint8_t *id, uint32_t x, uint32_t what, const uint32_t (&y)[COUNT], typename P::Value &out) {
    using Hash = typename P::Hash;
    uint32_t m[COUNT + 6];
    lms_begin<Hash>(id, x, m);
    m[5] = lms_u16<Hash>(what) | lms_joined<Hash, 2>(0, y[0]);
#pragma unroll
    for (unsigned i = 0; i < COUNT; i++)
        m[6 + i] = lms_joined<Hash, 2>(y[i], i + 1 < COUNT ? y[i + 1 < COUNT ? i + 1 : 0] : Hash::END);
    Hash::template hash<22 + 4 * COUNT>(m, out);
}

template <class P>
GABION_FN void lms_node(const uint8_t *id, uint32_t x, const typename P::Value &left, const typename P::Value &right,
                        typename P::Value &out) {
    uint32_t both[2 * P::WORDS];
#pragma unroll
    for (unsigned i = 0; i < P::WORDS; i++)
        both[i] = left[i], both[P::WORDS + i] = right[i];
    lms_hash<P>(id, x, LMS_D_INTR, both, out);
}

// The steps of a chain, H(I || u32str(q) || u16str(i) || u8str(j) || value): messages that differ in the
// of the sixth word on. With SHA-256 the rounds of the five words before are done once.
template <class P, bool IS_SHA256 = P::Hash::IS_SHA256> struct LmsStep {
    using Hash = typename P::Hash;
    static constexpr unsigned MESSAGE = P::WORDS + 6;
    uint32_t m[MESSAGE];
    uint32_t chain;
    GABION_FN LmsStep(const uint8_t *id, uint32_t q, uint32_t chain_) : chain(chain_) { lms_begin<Hash>(id, q, m); }

    GABION_FN void make(uint32_t j, typename P::Value &value) {
        words(j, value);
        Hash::template hash<23 + P::BYTES>(m, value);
    }

  protected:
    // u16str(i) || u8str(j) || value, from the sixth word on.
    GABION_FN void words(uint32_t j, const typename P::Value &value) {
        m[5] = lms_u16<Hash>(chain) | number<Hash>(j << 8) | lms_joined<Hash, 3>(0, value[0]);
#pragma unroll
        for (unsigned i = 0; i < P::WORDS; i++)
            m[6 + i] = lms_joined<Hash, 3>(value[i], i + 1 < P::WORDS ? value[i + 1 < P::WORDS ? i + 1 : 0] : Hash::END);
    }
};

template <class P> struct LmsStep<P, true> : LmsStep<P, false> {
    Sha256State begun;
    GABION_FN LmsStep(const uint8_t *id, uint32_t q, uint32_t chain_) : LmsStep<P, false>(id, q, chain_), begun(sha256_start()) {
        uint32_t w[16];
#pragma unroll
        for (unsigned i = 0; i < 5; i++)
            w[i] = this->m[i];
        sha256_rounds<0, 5>(begun, w);
    }

    GABION_FN void make(uint32_t j, typename P::Value &value) {
        this->words(j, value);
        uint32_t w[16];
#pragma unroll
        for (unsigned i = 0; i < 16; i++)
            w[i] = i < P::WORDS + 6 ? this->m[i < P::WORDS + 6 ? i : 0] : 0;
        w[15] = 8 * (23 + P::BYTES);
        Sha256State h = begun;
        sha256_rounds<5, 64>(h, w);
        sha256_add(h, sha256_start());
#pragma unroll
        for (unsigned i = 0; i < P::WORDS; i++)
            value[i] = h.of[i];
    }
};

// --- Kernels --------------------------------------------------------------------------------------------------------

// Q and its checksum (Algorithm 4b, step 3).
template <class P> struct LmsDigest : PerJob<LmsDigest<P>, LmsArguments> {
    static GABION_FN uint64_t jobs(const LmsArguments &a) { return a.n; }
    static GABION_FN void run(const LmsArguments &a, uint32_t op) {
        const LmsPart &part = a.parts[op];
        uint8_t *digest = a.digests + 64 * static_cast<size_t>(op);
        P::Hash::hash_string(a.input + part.message, part.message_length, digest);
        const uint32_t sum = checksum(digest, P::BYTES, a.w) << a.shift;
        digest[P::BYTES] = static_cast<uint8_t>(sum >> 8);
        digest[P::BYTES + 1] = static_cast<uint8_t>(sum);
    }
};

// Chains to their ends: from the seed (appendix A and Algorithm 1), or from what a signature has of them (Algorithm 4b).
template <class P> struct LmsChains : PerJob<LmsChains<P>, LmsArguments> {
    static GABION_FN uint64_t jobs(const LmsArguments &a) { return static_cast<uint64_t>(lms_all(a)) * a.chains; }
    static GABION_FN void run(const LmsArguments &a, uint32_t job) {
        using Hash = typename P::Hash;
        const uint32_t i = job / a.chains, chain = job % a.chains, last = (1u << a.w) - 1;
        const LmsLeafPlace place = lms_place<P>(a, i);
        typename P::Value value;
        // One less than the first step where the secret is yet to be derived.
        uint32_t next = 0;
        if (a.parts == nullptr) {
            from_bytes<Hash>(place.id + 16, value);
        } else {
            from_bytes<Hash>(a.input + a.parts[i].values + static_cast<size_t>(P::BYTES) * chain, value);
            next = 1 + digit(a.digests + 64 * static_cast<size_t>(i), chain, a.w);
        }
        LmsStep<LmsSet<typename Hash::Fast, P::BYTES>> step(place.id, place.q, chain);
#pragma unroll 1
        for (; next <= last; next++)
            step.make(next == 0 ? LMS_OF_SECRET : next - 1, value);
        // Ends are public: who verifies comes to them.
        GABION_DECLASSIFY(value, sizeof value);
        store_value(a.values + static_cast<size_t>(job) * P::WORDS, value);
    }
};

// K, the hash of a one-time public key (Algorithm 1), and the leaf (section 5.3).
template <class P> struct LmsLeaf : PerJob<LmsLeaf<P>, LmsArguments> {
    using Hash = typename P::Hash;
    // Words of I || u32str(q) || u16str(D_PBLC) || values, their end and zeros.
    struct Key {
        uint32_t first[6];
        const uint32_t *values;
        uint32_t count;
        GABION_FN uint32_t value(uint32_t i) const { return i < count ? values[i] : i == count ? Hash::END : 0; }
        GABION_FN uint32_t operator()(uint32_t i) const {
            if (i >= 6)
                return lms_joined<Hash, 2>(value(i - 6), value(i - 5));
            uint32_t word = 0;
#pragma unroll
            for (unsigned at = 0; at < 6; at++)
                word = i == at ? first[at] : word;
            return word;
        }
    };

    static GABION_FN uint64_t jobs(const LmsArguments &a) { return lms_all(a); }
    static GABION_FN void run(const LmsArguments &a, uint32_t i) {
        const LmsLeafPlace place = lms_place<P>(a, i);
        const uint32_t count = a.chains * P::WORDS;
        Key key;
        key.values = a.values + static_cast<size_t>(i) * count, key.count = count;
        lms_begin<Hash>(place.id, place.q, key.first);
        key.first[5] = lms_u16<Hash>(LMS_D_PBLC) | lms_joined<Hash, 2>(0, key.value(0));
        typename P::Value value;
        Hash::hash_long(key, 22 + 4 * count, value);
        lms_hash<P>(place.id, place.base + place.q, LMS_D_LEAF, value, value);
        store_value(a.nodes + static_cast<size_t>(i) * P::WORDS, value);
    }
};

// A level of the tree above leaves (section 5.3). The canary's node has itself for a neighbour.
template <class P> struct LmsTree : PerJob<LmsTree<P>, LmsArguments> {
    static GABION_FN uint32_t nodes(const LmsArguments &a) { return lms_leaves(a) >> (a.level + 1); }
    static GABION_FN uint64_t jobs(const LmsArguments &a) { return static_cast<uint64_t>(nodes(a)) + 1; }
    static GABION_FN void run(const LmsArguments &a, uint32_t node) {
        const bool is_canary = node == nodes(a);
        const uint32_t i = is_canary ? lms_leaves(a) : node << (a.level + 1);
        const LmsLeafPlace at = lms_place<P>(a, i);
        uint32_t *place = a.nodes + static_cast<size_t>(i) * P::WORDS;
        typename P::Value left, right;
        load_value(place, left);
        load_value(is_canary ? place : place + (static_cast<size_t>(P::WORDS) << a.level), right);
        lms_node<P>(at.id, (at.base + at.q) >> (a.level + 1), left, right, left);
        store_value(place, left);
    }
};

// Nodes to where they go.
template <class P> struct LmsFinish : PerJob<LmsFinish<P>, LmsArguments> {
    static GABION_FN uint64_t jobs(const LmsArguments &a) { return a.n; }
    static GABION_FN void run(const LmsArguments &a, uint32_t node) {
        typename P::Value value;
        load_value(a.nodes + (static_cast<size_t>(node) << a.low) * P::WORDS, value);
        to_bytes<typename P::Hash>(value, a.out + P::BYTES * static_cast<size_t>(node));
        a.status[node] = status_word(OK, a.generation);
    }
};

// The way up a tree, and whether its root is the key's (Algorithm 6a, step 4, and Algorithm 6, step 4).
template <class P> struct LmsClimb : PerJob<LmsClimb<P>, LmsArguments> {
    static GABION_FN uint64_t jobs(const LmsArguments &a) { return a.n; }
    static GABION_FN void run(const LmsArguments &a, uint32_t op) {
        const LmsPart &part = a.parts[op];
        const LmsLeafPlace at = lms_place<P>(a, op);
        uint32_t number = at.base + at.q;
        typename P::Value node, left, right;
        load_value(a.nodes + static_cast<size_t>(op) * P::WORDS, node);
#pragma unroll 1
        for (uint32_t level = 0; level < part.height; level++) {
            from_bytes<typename P::Hash>(a.input + part.path + static_cast<size_t>(P::BYTES) * level, right);
            const bool is_right = (number & 1) != 0;
#pragma unroll
            for (unsigned word = 0; word < P::WORDS; word++) {
                left[word] = is_right ? right[word] : node[word];
                right[word] = is_right ? node[word] : right[word];
            }
            number >>= 1;
            lms_node<P>(at.id, number, left, right, node);
        }
        const bool is_right = is_of_bytes<typename P::Hash>(node, at.id + 16);
        a.status[op] = status_word(is_right ? OK : INVALID_SIGNATURE, a.generation);
    }
};

using LmsSha256n24 = LmsSet<WordsSha256<false>, 24>;
using LmsSha256n32 = LmsSet<WordsSha256<false>, 32>;
using LmsShake256n24 = LmsSet<WordsShake<RATE_256>, 24>;
using LmsShake256n32 = LmsSet<WordsShake<RATE_256>, 32>;

} // namespace gabion
