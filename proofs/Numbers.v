(* A number for each person on all that is out of its trail (`publish_member`): whoever links the bundles anyway learns
   nothing more by it.

   Number x stands on the bundle of the person s x. To whoever has no secret s is drawn uniformly among the permutations of
   the generation; nothing else that is published depends on it. *)
From mathcomp Require Import ssreflect ssrfun ssrbool eqtype ssrnat seq choice fintype finfun bigop finset fingroup perm.
From mathcomp Require Import ssralg ssrnum rat.
From kanonflow Require Import Promise.
Set Implicit Arguments.
Unset Strict Implicit.
Unset Printing Implicit Defensive.
Import GRing.Theory Num.Theory GroupScope.
Local Open Scope ring_scope.

Section Numbers.
Variables (person trail : finType) (bundle : eqType).
Notation world := (world person trail).
Variables (prior release : world -> rat) (shown : world -> person -> bundle) (G : {set person}).
Hypothesis exchangeable : forall s w, within G s -> prior (moved s w) = prior w.
Hypothesis swap : forall s w, within G s -> release w != 0 -> release (moved s w) = release w.
Hypothesis shown_moved : forall s w p, within G s -> release w != 0 -> shown (moved s w) p = shown w (s p).

(* The bundle on which each number stands. *)
Variable seen : person -> bundle.

Definition numbers (w : world) (s : {perm person}) :=
  [forall p, (p \notin G) ==> (s p == p)] && [forall x, (x \in G) ==> (shown w (s x) == seen x)].

(* How likely a world is published with these numbers, but for a factor that is the same for all. *)
Definition release_numbered w := release w * #|[set s | numbers w s]|%:R.

(* The same, where number x is p's. *)
Definition weight_of x p := \sum_w prior w * (release w * #|[set s | numbers w s && (s x == p)]|%:R).

Lemma numbers_moved t w s : within G t -> release w != 0 -> numbers (moved t w) s = numbers w (s * t)%g.
Proof.
move=> wt nz; rewrite /numbers; congr (_ && _); apply: eq_forallb => p; last by rewrite shown_moved // permM.
by case: (boolP (p \in G)) => //= pG; rewrite permM -[X in _ = (_ == X)](wt p pG) (inj_eq perm_inj).
Qed.

Lemma count_moved t w (P : pred {perm person}) : within G t -> release w != 0 ->
  #|[set s | numbers (moved t w) s && P (s * t)%g]| = #|[set s | numbers w s && P s]|.
Proof.
move=> wt nz; rewrite -(card_imset _ (@mulIg _ t)); apply: eq_card => s.
apply/imsetP/idP => [[r]|]; first by rewrite !inE numbers_moved // => numbered ->.
by rewrite inE => numbered; exists (s * t^-1)%g; rewrite ?inE ?numbers_moved // mulgKV.
Qed.

Lemma numbered_swap t w : within G t -> release_numbered w != 0 -> release_numbered (moved t w) = release_numbered w.
Proof.
rewrite /release_numbered mulf_eq0 negb_or => wt /andP[nz _]; rewrite swap //; congr (_ * _%:R).
by have := count_moved xpredT wt nz; under eq_finset do rewrite andbT; under [in RHS]eq_finset do rewrite andbT.
Qed.

(* 1/|G| stands: of the bundles that look like b each is p's with the same probability, whoever reads the numbers. *)
Theorem one_in_k_numbered m p b : appears prior release_numbered shown G m -> p \in G ->
  #|G|%:R * weight prior release_numbered shown p b = (m b)%:R * evidence prior release_numbered.
Proof.
move=> app pG; apply: one_in_k app pG => [||s w q ws] //; first exact: numbered_swap.
by rewrite /release_numbered mulf_eq0 negb_or => /andP[nz _]; apply: shown_moved.
Qed.

(* A number is that of each of them with the same probability. *)
Theorem number_of_anybody x p q : p \in G -> q \in G -> weight_of x p = weight_of x q.
Proof.
move=> pG qG; rewrite /weight_of (reindex_inj (h := moved (tperm p q))); last exact: can_inj (@movedK _ _ _).
apply: eq_bigr => w _; have wt := within_tperm pG qG; rewrite exchangeable // (swap_always swap) //.
have [->|nz] := eqVneq (release w) 0; first by rewrite !mul0r.
congr (_ * (_ * _%:R)); rewrite -(count_moved (fun s => s x == q) wt nz); apply: eq_card => s.
by rewrite !inE permM -[X in _ = _ && (_ == X)](tpermL p q) (inj_eq perm_inj).
Qed.

End Numbers.
Print Assumptions one_in_k_numbered.
Print Assumptions number_of_anybody.
